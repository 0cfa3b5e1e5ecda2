"""Dialogues: messages of rows in the shapes that people have, as documents in one form.

A document is a JSON list of pairs, `[["user", "..."], ["assistant", "..."]]`.
"""

import json
import logging
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minigpt.corpus.documents import PIECE_BYTES, Piece
from minigpt.corpus.rows import DIALOGUE_COLUMNS, format_of, open_rows
from minigpt.corpus.text_files import TextFiles
from minigpt.errors import UserError
from minigpt.storage.files import bundled_file
from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.chat import check_messages

logger = logging.getLogger(__name__)

SHAPES = (
    "messages (objects with role and content), conversations (objects with from and value), or "
    "instruction and output"
)
# The names of the roles in ShareGPT's files.
ROLE_NAMES = {"human": "user", "gpt": "assistant"}


class Dialogues(TextFiles):
    """The dialogues of files, each row one dialogue.

    Args:
      paths: files, folders and globs; the bundled dialogues if empty.
      val_paths: those of the validation text, which come first.
    """

    suffixes: ClassVar[tuple[str, ...]] = tuple(
        suffix for suffix in TextFiles.suffixes if not suffix.startswith((".txt", ".md"))
    )

    def __init__(self, paths: Sequence[str | Path], val_paths: Sequence[str | Path] = ()) -> None:
        super().__init__([*val_paths, *(paths or [bundled_file("dialogues.jsonl.zst")])])

    def log_notes(self) -> None:
        """Logs which files are skipped."""
        self._log_skipped()

    def _documents(self, path: Path) -> Iterator[Piece]:
        if format_of(path) is None:
            raise UserError(
                f"{path}: should be a file with rows, such as .jsonl; each is a dialogue"
            )
        for number, row in enumerate(open_rows(path), start=1):
            try:
                yield Piece(document(row), True)
            except UserError as error:
                raise UserError(f"{path}: row {number:,}: {error}") from None


def document(row: Mapping[str, Any]) -> bytes:
    """Returns the document of a row.

    What follows the last answer is left out.

    Raises:
      UserError: the row has another shape, its roles are in a wrong order, or it has no answer.
    """
    messages = _messages(row)
    while messages and isinstance(messages[-1], dict) and messages[-1].get("role") == "user":
        messages.pop()
    if not messages:
        raise UserError("contains no answer; should contain at least a question and an answer")
    checked = check_messages(messages, ends_with="assistant")
    for number, message in enumerate(checked, 1):
        if message["role"] != "system" and not message["content"].strip():
            raise UserError(f"message {number}: is empty; should be a question or an answer")
        if "\0" in message["content"]:
            raise UserError(f"message {number}: contains a NUL; should be text")
    text = json.dumps([[m["role"], m["content"]] for m in checked], ensure_ascii=False)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise UserError("contains half of a surrogate pair; should be valid Unicode") from None
    if len(data) > PIECE_BYTES:
        raise UserError(f"has more than {PIECE_BYTES:,} bytes; should be divided")
    return data


def _messages(row: Mapping[str, Any]) -> list[Any]:
    """Returns the messages of a row, each with role and content if it has the right form."""
    name = next((name for name in DIALOGUE_COLUMNS if name in row), None)
    if name:
        names = ("role", "content") if name == "messages" else ("from", "value")
        if not isinstance(turns := row[name], list):
            raise UserError(f"{name!r} should be a list")
    elif "instruction" in row and "output" in row:
        given = [row[n] for n in ("instruction", "input") if row.get(n)]
        if not all(isinstance(text, str) for text in (*given, row["instruction"], row["output"])):
            raise UserError("'instruction', 'input' and 'output' should be strings")
        question = "\n\n".join(given)
        system = [{"role": "system", "content": row["system"]}] if row.get("system") else []
        return [
            *system,
            {"role": "user", "content": question},
            {"role": "assistant", "content": row["output"]},
        ]
    else:
        raise UserError(f"has the fields {reprlib.repr(list(row))}; should have {SHAPES}")
    return [
        {"role": _role(turn.get(names[0])), "content": turn.get(names[1])}
        if isinstance(turn, dict)
        else turn
        for turn in turns
    ]


def _role(name: Any) -> Any:
    return ROLE_NAMES.get(name, name) if isinstance(name, str) else name


def as_messages(text: str) -> list[dict[str, str]]:
    """Returns the messages of a document, as `chat.check_messages` does."""
    return [{"role": role, "content": content} for role, content in json.loads(text)]


def encode_documents(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    """Returns the token ids of documents, int32[T] each."""
    return tokenizer.encode_dialogues([as_messages(text) for text in texts])


def contents(documents: Iterable[str]) -> Iterator[str]:
    """Yields the texts of the messages of documents, to learn a tokenizer from."""
    for text in documents:
        for _, content in json.loads(text):
            yield content
