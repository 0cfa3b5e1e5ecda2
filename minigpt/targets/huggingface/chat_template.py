"""The format of dialogues of an imported folder, derived from its chat template.

The template is rendered for dialogues whose messages are marks. What is around the marks becomes ids.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from minigpt.errors import UserError
from minigpt.notices import LOGGER
from minigpt.tokenizers.base import Tokenizer, read_or_refuse
from minigpt.tokenizers.chat_format import ROLES, ChatFormat, find
from minigpt.tokenizers.gpt2 import GPT2Tokenizer

# The special tokens whose value is the end token in an exported folder.
_NAMES = ("bos_token", "eos_token", "unk_token")
_MARKS = ("Qxz1k", "Qxz2k", "Qxz3k", "Qxz4k", "Qxz5k")
# With white space, which a template may remove; and words, which may be joined with what is before them.
_TEXTS = ("the cat? ", "It is\n4.\n", "Où? ", "What? ")
# The roles and the texts of a dialogue, and whether an answer is asked for.
_DIALOGUES = (
    ("suau", _MARKS, True),
    ("uauau", _MARKS, True),
    ("ua", _MARKS, False),
    ("uau", _TEXTS, True),
)


def with_template(tokenizer: GPT2Tokenizer, folder: Path, settings: Mapping[str, Any]) -> Tokenizer:
    """Returns the tokenizer of a folder with the format of its chat template, if there is one.

    A line in the log says why a template cannot be used. `settings` is the content of
    tokenizer_config.json.
    """
    template = settings.get("chat_template")
    try:
        if (file := folder / "chat_template.jinja").is_file():
            template = read_or_refuse(file).decode("utf-8", "replace")
        if template is None:
            return tokenizer
        if not isinstance(template, str):
            raise UserError("chat_template in tokenizer_config.json should be text")
        # An exported folder has other special tokens; the template keeps its own.
        for name, value in {**dict.fromkeys(_NAMES, tokenizer.end_name), **settings}.items():
            text = value.get("content") if isinstance(value, dict) else value or ""
            is_written = name in _NAMES and text == tokenizer.end_name
            if name.endswith("_token") and name in template and not is_written:
                template = f"{{%- set {name} = {json.dumps(text)} %}}{template}"
        return tokenizer.with_chat(chat_format(template, tokenizer))
    except UserError as error:
        LOGGER.warning("%s: imported without its chat template: %s", folder, error)
        return tokenizer


def chat_format(template: str, tokenizer: GPT2Tokenizer) -> ChatFormat:
    """Returns the format of dialogues that a Jinja template describes; a `UserError` if it has another one.

    What it writes around the messages of a role should always be the same and have tokens of its own. An
    answer should end with the end token.
    """
    rendered = _rendered(template, tokenizer.end_name)
    system, question, answer, again, _ = _around(rendered[0], 4)
    tail = _around(rendered[2], 2)[-1]
    ask = again.removeprefix(tail)
    start = _around(rendered[1], 5)[0].removesuffix(ask)

    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text).tolist())

    before, after = (system, ask, answer), (question.removesuffix(ask), "", tail)
    chat = ChatFormat(
        dict(zip(ROLES, map(ids, before), strict=True)),
        dict(zip(ROLES, map(ids, after), strict=True)),
        template,
        ids(start),
    )
    if chat.after["assistant"][:1] != (tokenizer.end_id,):
        problem = f"should end with the end token, {tokenizer.end_name}"
        raise UserError(f"an answer ends with {tail!r}; {problem}")
    opening, own = chat.before["assistant"], {token.id for token in tokenizer.added}
    with_chat = tokenizer.with_chat(chat)
    for (roles, texts, asks), text in zip(_DIALOGUES, rendered, strict=True):
        (encoded,) = with_chat.encode_dialogues([_messages(roles, texts)])
        if asks and tuple(encoded.tolist()) != ids(text):
            raise UserError("what it writes around a message should depend on its role only")
    if len(find(encoded, opening)) != 2 or not own & {*opening}:
        raise UserError("an answer does not begin with a token that no text is encoded to")
    return chat


def _rendered(template: str, end: str) -> list[str]:
    """Renders `_DIALOGUES` as transformers does, in a sandbox: the template may come from anybody."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(
        value, **{"ensure_ascii": False, **options}
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    special = dict.fromkeys(_NAMES, end)
    try:
        compiled = environment.from_string(template)
        return [
            compiled.render(messages=_messages(roles, texts), add_generation_prompt=asks, **special)
            for roles, texts, asks in _DIALOGUES
        ]
    except Exception as error:  # A template may raise any.
        message = " ".join(str(error).split())[:200]
        raise UserError(f"{type(error).__name__}: {message}") from None


def _refuse(message: Any) -> NoReturn:
    raise UserError(str(message))


def _messages(roles: str, texts: tuple[str, ...]) -> list[dict[str, str]]:
    names = {role[0]: role for role in ROLES}
    return [{"role": names[r], "content": t} for r, t in zip(roles, texts, strict=False)]


def _around(text: str, count: int) -> list[str]:
    """Returns what is before, between and after the first marks."""
    places = [text.find(mark) for mark in _MARKS[:count]]
    if any(text.count(mark) != 1 for mark in _MARKS[:count]) or places != sorted(places):
        raise UserError("it does not write each message once and in order")
    ends = [0, *(place + len(_MARKS[0]) for place in places)]
    return [text[a:b] for a, b in zip(ends, [*places, len(text)], strict=True)]
