"""The public names and the arguments of the last version without a format number still work."""

import inspect
from typing import get_overloads

import pytest

import minigpt

ARGUMENTS = {
    "Run": "path",
    "Run.load_tokenizer": "",
    "Run.load_model": "report",
    "Run.best_checkpoint": "report",
    "TextGenerator": "tokenizer prompts max_new_tokens top_k temperature seed print_every",
    "TextModel": "model tokenizer",
    "TextModel.generate": "prompts max_new_tokens settings",
    "TextModel.samples": "prompts max_new_tokens seed num_samples settings",
    "TextModel.stream": "prompt max_new_tokens seed settings",
    "TextModel.unknown_tokens": "text",
    "TextModel.logits": "token_ids",
    "TextModel.latents": "token_ids",
    "TextModel.evaluate": "texts",
    "TranslationModel": "model tokenizer",
    "TranslationModel.translate": "texts beams length_penalty max_new_tokens",
    "TranslationModel.source_tokens": "text",
    "TranslationModel.unknown_tokens": "text",
    "TranslationModel.evaluate": "pairs beams length_penalty",
    "config_for_text": "paths overrides report",
    "evaluate_run": "run paths report",
    "export_run": "run format folder report",
    "import_run": "folder run report",
    "load": "run report",
    "load_config": "source overrides text",
    "resume": "run changes command console",
    "train": "config run name command console",
}

# Function → former name → present name of a positional argument.
RENAMED = {"export_run": {"folder": "output"}}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name):
    callable_ = minigpt
    for part in name.split("."):
        callable_ = getattr(callable_, part)
    expected = ARGUMENTS[name].split()
    # `TextGenerator` can be called in two ways; the second one is the former one.
    calls = get_overloads(callable_.__init__) if inspect.isclass(callable_) else []
    parameters = inspect.signature(calls[-1] if calls else callable_).parameters
    found = [parameter for parameter in parameters if parameter != "self"]
    assert set(expected) <= set(found)
    for position, argument in enumerate(expected):
        # A renamed argument is in the former one's place; the former name is a keyword.
        in_place = found.index(argument) == position or argument in RENAMED.get(name, {})
        # The place of `**settings` does not matter.
        by_keyword = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
        assert in_place or parameters[argument].kind in by_keyword
    for argument, new_name in RENAMED.get(name, {}).items():
        assert found.index(new_name) == expected.index(argument)


def test_names():
    names = {name.split(".")[0] for name in ARGUMENTS} | {"Config", "PairEvaluation", "UserError"}
    assert names <= set(minigpt.__all__)


def test_report_is_deprecated_and_works(tmp_path):
    (tmp_path / "book.txt").write_text("A text of a few words. " * 100)
    lines: list[str] = []
    with pytest.warns(DeprecationWarning, match="report"):
        minigpt.config_for_text([str(tmp_path / "book.txt")], (), lines.append)
    assert any("training.steps_per_epoch" in line for line in lines)
