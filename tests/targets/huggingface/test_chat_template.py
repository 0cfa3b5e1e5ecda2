"""Chat templates of imported folders: the format that is derived, and templates that are refused."""

import json
import logging
from pathlib import Path

import jinja2
import numpy as np
import pytest

import minigpt
from minigpt.config import GPTConfig
from minigpt.models import GPT
from minigpt.targets.huggingface.folders import import_run, read_folder
from minigpt.tokenizers.gpt2 import AddedToken, GPT2Tokenizer
from tests.targets.gguf.models import gpt2_tokenizer
from tests.targets.huggingface.folders import FIXTURES, write_model

pytestmark = pytest.mark.usefixtures("without_xla")
QWEN3 = (FIXTURES.parent / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "eos_token + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
NAMES = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Who has the ball?"},
    {"role": "assistant", "content": "Ana."},
    {"role": "user", "content": "Where is <|im_start|>"},
]
SIZES = {"max_len": 128, "embed_dim": 16, "num_heads": 2, "num_layers": 1}


def chatml_tokenizer(splitting: str = "gpt2", end: int = 2) -> GPT2Tokenizer:
    """The fixture's vocabulary with the tokens of ChatML, the last of which ends an answer."""
    plain = gpt2_tokenizer()
    first = plain.vocab_size
    added = [AddedToken(first + i, name, special=True) for i, name in enumerate(NAMES[1:], 1)]
    added = [AddedToken(plain.special[NAMES[0]], NAMES[0], special=True), *added]
    special = {token.content: token.id for token in added}
    end_id = special[NAMES[end]]
    return GPT2Tokenizer(plain.encoder, plain.merges, special, end_id, None, added, splitting)


def folder_with(template: str | None, folder: Path, splitting="gpt2", end: int = 2) -> Path:
    tokenizer = chatml_tokenizer(splitting, end)
    kind = {"gpt2": {"block": "pre_norm", "activation": "gelu_tanh"}, "qwen2": {"block": "modern"}}
    model = GPT(GPTConfig(**SIZES, **kind[splitting]), tokenizer.vocab_size)
    draw = np.random.default_rng(3)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            variable.assign(1.5 * draw.standard_normal(variable.shape) / variable.shape[-1] ** 0.5)
    write_model(model, tokenizer, folder)
    if template is not None:
        path = folder / "tokenizer_config.json"
        settings = json.loads(path.read_text()) | {"chat_template": template}
        path.write_text(json.dumps(settings))
    return folder


def plainly_rendered(template: str, messages: list, **variables) -> str:
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        messages=messages, add_generation_prompt=True, eos_token="<|im_end|>", **variables
    )


@pytest.mark.parametrize(
    ("splitting", "template"), [("qwen2", QWEN3), ("gpt2", CHATML), ("gpt2", QWEN3)]
)
def test_the_ids_of_dialogues_are_those_of_the_template(splitting, template, tmp_path):
    run = import_run(folder_with(template, tmp_path / "folder", splitting), tmp_path / "run")
    tokenizer = run.load_tokenizer()
    assert tokenizer.chat.template == template
    for messages in (TURNS[:2], TURNS[1:2], TURNS[:3] + TURNS[1:2], TURNS[1:3] + TURNS[1:2]):
        (ids,) = tokenizer.encode_dialogues([messages])
        assert ids.tolist() == tokenizer.encode(plainly_rendered(template, messages)).tolist()
    # What a user types is text.
    (ids,) = tokenizer.encode_dialogues([TURNS])
    start = tokenizer.special["<|im_start|>"]
    assert (ids == start).sum() == 5
    assert tokenizer.decode(ids).count("<|im_start|>") == 6


def test_chat_with_an_imported_model_and_export(tmp_path, caplog):
    run = import_run(folder_with(CHATML, tmp_path / "folder"), tmp_path / "run")
    answer = minigpt.load(run).chat("Who?", 5, temperature=0.0)
    minigpt.export_run(run, "huggingface", tmp_path / "again")
    settings = json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())
    assert settings["chat_template"] == CHATML and settings["eos_token"] == "<|im_end|>"
    again = read_folder(tmp_path / "again")[1]
    assert again.chat == run.load_tokenizer().chat
    minigpt.export_run(run, "gguf", tmp_path / "model.gguf")
    portable = minigpt.load_portable(tmp_path / "model.gguf")
    assert portable.tokenizer.chat == again.chat
    assert portable.chat("Who?", 5, temperature=0.0) == answer
    assert not [r for r in caplog.records if r.name.startswith("minigpt")]


def test_a_file_of_its_own_precedes_the_settings(tmp_path):
    folder = folder_with("{{ broken", tmp_path / "folder")
    (folder / "chat_template.jinja").write_text(CHATML)
    assert read_folder(folder)[1].chat.template == CHATML
    (folder / "chat_template.jinja").unlink()
    assert read_folder(folder)[1].chat is None


def test_the_kept_template_names_tokens_that_are_written_otherwise(tmp_path):
    folder = folder_with("{{ bos_token }}" + CHATML, tmp_path / "folder")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["bos_token"] = "<|endoftext|>"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = read_folder(folder)[1]
    begin = tokenizer.special["<|endoftext|>"]
    assert tokenizer.chat.start == (begin,)
    for messages in (TURNS[:2], TURNS[1:2]):
        (ids,) = tokenizer.encode_dialogues([messages])
        assert ids[0] == begin
        text = plainly_rendered(tokenizer.chat.template, messages, bos_token="<|im_end|>")
        assert text.startswith("<|endoftext|><|im_start|>")


PROBLEMS = {
    "{{ broken": "TemplateSyntaxError: ",
    "{{ 1 / 0 }}": "ZeroDivisionError",
    "{{ ''.__class__.__mro__ }}": "SecurityError",
    "{{ raise_exception('No system message.') }}": "No system message.",
    "{{ messages[0].content }}": "does not write each message once",
    CHATML.replace("'\n' +", "loop.index|string + '\n' +", 1): "depend on its role",
    CHATML.replace("message['content']", "message['content'] | trim"): "depend on its role",
    CHATML.replace("eos_token", "'<|endoftext|>'"): "should end with the end token, <|im_end|>",
    CHATML.replace("<|im_start|>", "").replace(
        "eos_token +", "'\n' +"
    ): "ends with '\\n\\n'; should",
    "{% for m in messages %}{{ m.content + eos_token }}{% endfor %}": "no text is encoded to",
    CHATML.replace("\n' + m", "\ni' + m").replace("\n' }}", "\ni' }}"): "depend on its role",
}


@pytest.mark.parametrize("template", PROBLEMS)
def test_a_template_that_cannot_be_used_costs_the_chat_only(template, tmp_path, caplog):
    folder = folder_with(None, tmp_path / "folder")
    (folder / "chat_template.jinja").write_text(template)
    with caplog.at_level(logging.WARNING):
        run = import_run(folder, tmp_path / "run")
    assert run.load_tokenizer().chat is None
    (record,) = caplog.records
    line = record.getMessage()
    assert line.startswith(f"{folder}: imported without its chat template: ") and "\n" not in line
    assert PROBLEMS[template] in line
    assert minigpt.load(run).logits(np.array([[1, 2]])).shape == (1, 2, 403)
