"""The public names and their arguments stay."""

import inspect

import pytest

import minigpt

ARGUMENTS = {
    "Run": "path",
    "Run.load_tokenizer": "",
    "Run.load_model": "",
    "Run.best_checkpoint": "",
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
    "TranslationModel.unknown_tokens": "text",
    "TranslationModel.evaluate": "pairs beams length_penalty",
    "config_for_text": "paths overrides",
    "evaluate_run": "run paths",
    "export_run": "run format output",
    "import_run": "folder run",
    "load": "run",
    "load_config": "source overrides text",
    "resume": "run changes command console",
    "sweep": "values config output text",
    "train": "config run text minutes base name command console",
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name):
    callable_ = minigpt
    for part in name.split("."):
        callable_ = getattr(callable_, part)
    expected = ARGUMENTS[name].split()
    # `TextGenerator` can be called in two ways.
    call = getattr(callable_, "_from_tokenizer", callable_)
    parameters = inspect.signature(call).parameters
    found = [parameter for parameter in parameters if parameter != "self"]
    assert set(expected) <= set(found)
    for position, argument in enumerate(expected):
        in_place = found.index(argument) == position
        # The place of `**settings` does not matter.
        by_keyword = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
        assert in_place or parameters[argument].kind in by_keyword


def test_names():
    names = {name.split(".")[0] for name in ARGUMENTS} | {"Config", "PairEvaluation", "UserError"}
    assert names <= set(minigpt.__all__)
