"""How the messages of a dialogue become token ids. Needs NumPy only."""

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigpt.errors import UserError

# Each with the keys `role` and `content`.
Messages = Sequence[Mapping[str, Any]]

ROLES = ("system", "user", "assistant")
# The roles that a message of each role may follow; "" is the beginning.
_BEFORE = {"system": ("",), "user": ("", "system", "assistant"), "assistant": ("user",)}
# The names of the tokens that minigpt adds to a vocabulary, one for each role.
ROLE_TOKENS = tuple(f"<|{role}|>" for role in ROLES)

# The same format for other programs, in Jinja. Only answers end with the end token.
TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|' + message['role'] + '|>' + message['content'] -}}"
    "{%- if message['role'] == 'assistant' -%}{{- 'END' -}}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)


@dataclass(frozen=True)
class ChatFormat:
    """The token ids around the text of a message, and the same as a template.

    Attributes:
      before: role → ids before the text of a message.
      after: role → ids after it. That of an answer begins with the end token.
      template: the Jinja template of a chat, as in `tokenizer_config.json` of Hugging Face.
      start: ids before the first message of a dialogue without a system message.
      added: the names of the last tokens of the vocabulary, if they were added for the roles.
    """

    before: Mapping[str, tuple[int, ...]]
    after: Mapping[str, tuple[int, ...]]
    template: str
    start: tuple[int, ...] = ()
    added: tuple[str, ...] = ()

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> "ChatFormat":
        """Builds a format from its attributes as JSON types. KeyError and TypeError mean damage."""
        before, after = (
            {role: tuple(map(int, state[name][role])) for role in ROLES}
            for name in ("before", "after")
        )
        start, added = tuple(map(int, state["start"])), tuple(state["added"])
        return cls(before, after, str(state["template"]), start, added)


def role_format(first_id: int, end_id: int, end: str) -> ChatFormat:
    """Returns the format of a vocabulary to which `ROLE_TOKENS` are added.

    A role token precedes each message, and the end token follows each answer.

    Args:
      first_id, end_id: the ids of the first role token and of the end token.
      end: the name of the end token.
    """
    before = {role: (first_id + i,) for i, role in enumerate(ROLES)}
    after = {role: (end_id,) if role == "assistant" else () for role in ROLES}
    template = TEMPLATE.replace("'END'", repr(end))
    return ChatFormat(before, after, template, added=ROLE_TOKENS)


def check_messages(messages: Any, *, ends_with: str) -> list[dict[str, str]]:
    """Returns messages, each with role and content.

    Args:
      messages: one text, a question; or a sequence of mappings with `role` and `content`: an optional
        system message, then questions and answers alternately. Content is a text, or a list of parts as
        in OpenAI's protocol, `{"type": "text", "text": ...}`, which are joined. The role "developer"
        means "system".
      ends_with: the role of the last message.
    Raises:
      UserError: they have another form, or the roles are in another order.
    """
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    checked: list[dict[str, str]] = []
    for number, message in enumerate(messages, 1):
        given = message if isinstance(message, Mapping) else {}
        role = "system" if given.get("role") == "developer" else given.get("role")
        content = _text(given.get("content"))
        last = checked[-1]["role"] if checked else ""
        if content is None or role not in ROLES or last not in _BEFORE[role]:
            raise UserError(
                f"message {number}: should have content (text, or a list of parts of the type text) and a "
                f"role: system, if there is one, then user and assistant in turn: {reprlib.repr(message)}"
            )
        checked.append({"role": role, "content": content})
    if not checked or checked[-1]["role"] != ends_with:
        raise UserError(f"messages: the last one should be of the role {ends_with!r}")
    return checked


def _text(content: Any) -> str | None:
    """Returns the text of a message: its content, or the texts of its parts, joined; None without."""
    if not isinstance(content, list | tuple):
        return content if isinstance(content, str) else None
    parts = [part if isinstance(part, Mapping) else {} for part in content]
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    is_text = len(texts) == len(parts) and all(isinstance(text, str) for text in texts)
    return "".join(map(str, texts)) if is_text else None


def answers(ids: np.ndarray, chat: ChatFormat) -> tuple[np.ndarray, np.ndarray]:
    """Returns where answers begin and end in int[N], the ids of dialogues of answered questions.

    Returns:
      int64[A], the index of the first id after `before["assistant"]`; and int64[A], the index after the end
      token of the answer.
    """
    starts = find(ids, chat.before["assistant"]) + len(chat.before["assistant"])
    ends = find(ids, chat.after["assistant"][:1])
    return starts, ends[np.searchsorted(ends, starts)] + 1 if len(starts) else starts


def find(ids: np.ndarray, part: Sequence[int]) -> np.ndarray:
    """Returns the indices at which a part begins in ids, int64[n]."""
    last = len(ids) - len(part) + 1
    if last <= 0:
        return np.zeros(0, np.int64)
    found = np.ones(last, bool)
    for offset, token in enumerate(part):
        found &= ids[offset : offset + last] == token
    return np.flatnonzero(found)
