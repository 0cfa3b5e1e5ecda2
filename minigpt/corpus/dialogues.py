"""Dialogues: messages of rows in the shapes that people have, as documents in one form.

A document is a JSON list of pairs, `[["user", "..."], ["assistant", "..."]]`.
"""

import json
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minigpt.corpus.documents import PIECE_BYTES, Piece
from minigpt.corpus.rows import DIALOGUE_COLUMNS, SourceFile, format_of, open_rows
from minigpt.corpus.text_files import TextFiles
from minigpt.errors import UserError
from minigpt.storage.files import bundled_file
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.chat_format import check_messages

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

    def _documents(self, file: SourceFile) -> Iterator[Piece]:
        if format_of(file.path) is None:
            raise UserError(f"{file.path}: should be a file with rows, such as .jsonl")
        for number, row in enumerate(open_rows(file), start=1):
            try:
                yield Piece(document(row), True)
            except UserError as error:
                raise UserError(f"{file.path}: row {number:,}: {error}") from None


def document(row: Mapping[str, Any]) -> bytes:
    """Returns the document of a row.

    What follows the last answer is left out.

    Raises:
      UserError: the row has another shape, its roles are in a wrong order, or it has no answer.
    """
    messages = _messages(row)
    while messages and isinstance(messages[-1], dict) and messages[-1].get("role") == "user":
        messages.pop()
    checked = check_messages(messages, ends_with="assistant")
    for number, message in enumerate(checked, 1):
        is_blank = message["role"] != "system" and not message["content"].strip()
        if is_blank or "\0" in message["content"]:
            raise UserError(f"message {number}: is empty or has a NUL; should be text")
    text = json.dumps([[m["role"], m["content"]] for m in checked], ensure_ascii=False)
    # Half of a surrogate pair becomes a question mark.
    data = text.encode(errors="replace")
    if len(data) > PIECE_BYTES:
        raise UserError(f"has more than {PIECE_BYTES:,} bytes; should be divided")
    return data


def _messages(row: Mapping[str, Any]) -> list[Any]:
    """Returns the messages of a row, each with role and content if it has the right form."""
    name = next((name for name in DIALOGUE_COLUMNS if name in row), None)
    if name:
        role, content = ("role", "content") if name == "messages" else ("from", "value")
        turns = row[name] if isinstance(row[name], list) else []
        if all(isinstance(turn, dict) for turn in turns):
            names = [ROLE_NAMES.get(str(turn.get(role)), turn.get(role)) for turn in turns]
            texts = [turn.get(content) for turn in turns]
            turns = [{"role": n, "content": t} for n, t in zip(names, texts, strict=True)]
        return turns
    if "instruction" not in row or "output" not in row:
        raise UserError(f"has the fields {reprlib.repr(list(row))}; should have {SHAPES}")
    question = [str(row[name]) for name in ("instruction", "input") if row.get(name)]
    system = [{"role": "system", "content": row["system"]}] if row.get("system") else []
    return [
        *system,
        {"role": "user", "content": "\n\n".join(question)},
        {"role": "assistant", "content": row["output"]},
    ]


def encode_documents(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    """Returns the token ids of documents, int32[T] each."""
    return tokenizer.encode_dialogues(
        [[{"role": r, "content": content} for r, content in json.loads(text)] for text in texts]
    )


def contents(documents: Iterable[str]) -> Iterator[str]:
    """Yields the texts of the messages of documents, to learn a tokenizer from."""
    for text in documents:
        for _, content in json.loads(text):
            yield content
