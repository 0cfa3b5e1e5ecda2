"""Dialogues: the messages of rows as documents in one form, and batches of them.

A document is a JSON list of pairs, `[["user", "..."], ["assistant", "..."]]`. Several dialogues are packed
into a row of a batch. They do not see each other: the batch says where the dialogue of each token begins. A
pass visits all rows once, in a pseudo-random order; each batch is a pure function of (seed, step).
"""

import itertools
import json
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from minigpt.corpus.batches import shuffled
from minigpt.corpus.chats import SPEAKERS, turns
from minigpt.corpus.documents import PIECE_BYTES, Piece
from minigpt.corpus.formats import FORMATS
from minigpt.corpus.rows import DIALOGUE_COLUMNS, QUESTIONS, File, Row
from minigpt.corpus.text_files import TextFiles
from minigpt.errors import UserError, nearest
from minigpt.storage.files import bundled
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.chat_format import answers, check_messages, find
from minigpt.tokenizers.vocabulary import Vocabulary

# (ids, starts), targets, weights: int32[B, T] each, and float32[B, T].
DialogueBatch = tuple[tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray]
LossOn = Literal["answers", "all"]

SHAPES = (
    "messages (objects with role and content), conversations (objects with from and value), or a "
    f"question and an answer ({', '.join(map(' and '.join, QUESTIONS))})"
)
# The names of the roles in ShareGPT's files.
ROLE_NAMES = {"human": "user", "gpt": "assistant"}


class Dialogues(TextFiles):
    """The dialogues of files, each row one dialogue, and the conversations of chats.

    Args:
      paths: files, folders and globs; the bundled dialogues if empty.
      val_paths: those of the validation text, which come first.
      me: the person in chats whose messages are the answers; None for the one with most messages in a file.
    Attributes:
      speakers, chats: the numbers of messages and of chats of each person, known after `pieces`.
    """

    suffixes: ClassVar[tuple[str, ...]] = tuple(
        s for s in TextFiles.suffixes if not s.startswith((".md", *FORMATS))
    )

    def __init__(
        self,
        paths: Sequence[str | Path],
        val_paths: Sequence[str | Path] = (),
        me: str | None = None,
    ) -> None:
        super().__init__([*val_paths, *(paths or [bundled("data/dialogues.jsonl.zst")])])
        self._me, self.speakers, self.chats = me, Counter[str](), Counter[str]()

    def pieces(self) -> Iterator[Piece]:
        yield from super().pieces()
        if self._me and self.speakers and self._me not in self.speakers:
            known = nearest(self._me, self.speakers)
            raise UserError(f"data.me = {self._me!r}: has no messages{known}")

    def _documents(self, file: File) -> Iterator[Piece]:
        rows = self._dialogues(file)
        first = next(rows, {})
        rows = itertools.chain([first], rows)
        if SPEAKERS in first:
            rows = self._answered(list(rows))
        for number, row in enumerate(rows, start=1):
            try:
                yield Piece(document(row), True)
            except UserError as error:
                raise UserError(f"{file.path}: row {number:,}: {error}") from None

    def _answered(self, chat: list[Row]) -> Iterator[Row]:
        """Yields the conversations of a chat as dialogues, and counts the messages of each person."""
        names = [(row.get("chat"), name) for row in chat for name, _ in row[SPEAKERS]]
        self.chats.update(name for _, name in set(names))
        self.speakers += (speakers := Counter(name for _, name in names))
        me = self._me or speakers.most_common(1)[0][0]
        found = ({"messages": turns(row[SPEAKERS], me)} for row in chat)
        return (row for row in found if row["messages"])


def document(row: Mapping[str, Any]) -> bytes:
    """Returns the document of a row, up to its last answer.

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
    if name := next((name for name in DIALOGUE_COLUMNS if name in row), None):
        role, content = DIALOGUE_COLUMNS[name]
        turns = row[name] if isinstance(row[name], list) else []
        if all(isinstance(turn, dict) for turn in turns):
            names = [ROLE_NAMES.get(str(turn.get(role)), turn.get(role)) for turn in turns]
            texts = [turn.get(content) for turn in turns]
            turns = [{"role": n, "content": t} for n, t in zip(names, texts, strict=True)]
        return turns
    pair = next((pair for pair in QUESTIONS if row.keys() >= {*pair}), None)
    if not pair:
        raise UserError(f"has the fields {reprlib.repr(list(row))}; should have {SHAPES}")
    question = [str(row[name]) for name in (pair[0], "input") if row.get(name)]
    system = [{"role": "system", "content": row["system"]}] if row.get("system") else []
    return [
        *system,
        {"role": "user", "content": "\n\n".join(question)},
        {"role": "assistant", "content": row[pair[1]]},
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


class PackedDialogues:
    """The dialogues of one part of a corpus.

    Args:
      ids: uint16 or uint32[n + 1]: an end token, then dialogues, each followed by an end token.
      length: T, targets in a row.
      loss_on: whether the tokens of the answers have a weight, with the token that ends them, or all.

    Attributes:
      spans: int64[N, 2], the first id and the end of each segment: dialogues, or parts of longer ones.
      divided: the number of dialogues that were divided.
      left_out: the number of ids of messages that are in no segment.
      rows: for each row, the indices of its segments.
      weights: bool[n + 1], whether each id has a weight as a target.
    """

    def __init__(
        self, ids: np.ndarray, tokenizer: Vocabulary, length: int, loss_on: LossOn = "answers"
    ) -> None:
        chat, end_id = tokenizer.chat, tokenizer.end_id
        assert chat is not None, "Token stores of dialogues have a format for them."
        self.ids = ids.view(np.ndarray)
        self.length = length
        # Beyond the end token that closes an answer, a dialogue is followed by one of its own.
        closing = (*chat.after["assistant"], end_id)
        ends = find(self.ids, closing) + len(closing) - 1
        begins = np.concatenate([[1], ends + 1])[: len(ends)]
        answer_starts, answer_ends = answers(self.ids, chat)
        self._answer_starts = answer_starts
        self.weights = np.full(len(self.ids), loss_on == "all")
        if loss_on == "answers":
            self.weights = self._between(answer_starts, answer_ends)
        turn_ends = answer_ends + len(chat.after["assistant"]) - 1
        spans = np.stack([begins, ends], 1)
        self.divided = int((ends - begins > length + 1).sum())
        self.spans, self.left_out = _segments(spans, turn_ends, length)
        # The first id of a segment is not a target, nor are those that are left out.
        self.weights &= self._between(self.spans[:, 0] + 1, self.spans[:, 1])
        self.rows = pack(np.diff(self.spans)[:, 0] - 1, length)

    def _between(self, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns which ids are in one of several spans, bool[n + 1]."""
        change = np.zeros(len(self.ids) + 1, np.int8)
        change[begins] += 1
        change[ends] -= 1
        return np.cumsum(change[:-1]).astype(bool)

    def target_counts(self, vocab_size: int) -> np.ndarray:
        """Returns how often each token is a target with a weight, int64[V]."""
        return np.bincount(self.ids[self.weights], minlength=vocab_size)

    def questions(self, count: int) -> list[np.ndarray]:
        """Returns the ids up to the first answer of the first segments: at most `count` different ones."""
        begins = self.spans[:, 0]
        ends = self._answer_starts[np.searchsorted(self._answer_starts, begins)]
        found: dict[bytes, np.ndarray] = {}
        for begin, end in zip(begins, ends, strict=True):
            if len(found) < count:
                found.setdefault(self.ids[begin:end].tobytes(), self.ids[begin:end])
        return list(found.values())

    def batch(self, rows: np.ndarray, batch_size: int) -> DialogueBatch:
        """Returns some rows; what is missing in a row or in the batch has id 0 and weight 0."""
        ids = np.zeros((batch_size, self.length), np.int32)
        targets, starts = np.zeros_like(ids), np.zeros_like(ids)
        weights = np.zeros(ids.shape, np.float32)
        for number, row in enumerate(rows):
            place = 0
            for segment in self.rows[row]:
                first, end = self.spans[segment]
                part = slice(place, place + end - first - 1)
                ids[number, part] = self.ids[first : end - 1]
                targets[number, part] = self.ids[first + 1 : end]
                weights[number, part] = self.weights[first + 1 : end]
                starts[number, part] = place
                place = part.stop
            starts[number, place:] = place
        return (ids, starts), targets, weights

    def training_batch(self, batch_size: int, seed: int, step: int) -> DialogueBatch:
        """Returns the batch of one step: row j is row step · B + j of an endless sequence of passes."""
        numbers = [divmod(step * batch_size + row, len(self.rows)) for row in range(batch_size)]
        rows = [shuffled(len(self.rows), seed, number)[place] for number, place in numbers]
        return self.batch(np.array(rows), batch_size)

    def once(self, batch_size: int) -> Iterator[DialogueBatch]:
        """Yields every row once."""
        for first in range(0, len(self.rows), batch_size):
            rows = np.arange(first, min(first + batch_size, len(self.rows)))
            yield self.batch(rows, batch_size)


def _segments(spans: np.ndarray, turn_ends: np.ndarray, length: int) -> tuple[np.ndarray, int]:
    """Divides dialogues of more than `length` + 1 ids where a turn ends, `turn_ends`.

    A question with its answer that is longer than that is left out.

    Returns:
      the spans of the segments, int64[N, 2], and how many ids of messages are in none.
    """
    fits = np.diff(spans)[:, 0] <= length + 1
    parts, left_out = spans[fits].tolist(), 0
    for start, end in spans[~fits].tolist():
        first, last = np.searchsorted(turn_ends, [start, end], side="right")
        cuts = turn_ends[first:last].tolist()
        while cuts:
            fitting = sum(cut - start <= length + 1 for cut in cuts)
            cut = cuts[max(fitting, 1) - 1]
            if fitting:
                parts.append([start, cut])
            else:
                left_out += cut - start
            start, cuts = cut, cuts[max(fitting, 1) :]
    return np.array(sorted(parts), np.int64).reshape(-1, 2), left_out


def pack(lengths: np.ndarray, capacity: int) -> list[list[int]]:
    """Returns rows of items whose lengths sum up to at most the capacity: best fit, the longest first.

    Args:
      lengths: int[N], each from 1 to the capacity.
    Returns:
      the indices of the items of each row.
    """
    rows: list[list[int]] = []
    # The rows with each number of free places.
    free: list[list[int]] = [[] for _ in range(capacity + 1)]
    for index in np.argsort(-lengths, kind="stable").tolist():
        size = int(lengths[index])
        room = next((room for room in range(size, capacity + 1) if free[room]), None)
        if room is None:
            rows.append([])
            row, room = len(rows) - 1, capacity
        else:
            row = free[room].pop()
        rows[row].append(index)
        free[room - size].append(row)
    return rows


def check_dialogues_fill_batch(dialogues: PackedDialogues, batch_size: int, text: str) -> None:
    """Raises a `UserError` if there are fewer rows than in a batch."""
    if len(dialogues.rows) < batch_size:
        raise UserError(
            f"{text}: {len(dialogues.spans):,} dialogues that fit into model.max_len fill "
            f"{len(dialogues.rows):,} rows of {dialogues.length} tokens; training.batch_size = "
            f"{batch_size} needs at least that many"
        )
