"""A vocabulary: the bytes of each token id, and the text of ids, whole or token by token. Needs NumPy only.

Stop strings end a text and are not part of it. If a text contains several, it is cut at the one that is
completed first. If several are completed at the same character, it is cut at the longest. Appending to a
text never changes where it is cut.
"""

import abc
import codecs
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from minigpt.errors import ArgumentProblem, UserError
from minigpt.tokenizers.chat_format import ChatFormat, Messages

_UTF_8 = codecs.getincrementaldecoder("utf-8")


class Vocabulary(abc.ABC):
    """The tokens of a tokenizer, and how text is made of them.

    A subclass defines `encode` and the attributes `end_id` and `unknown_id`.

    Attributes:
      pieces: the bytes that each id adds to decoded text; b"" for special tokens.
      separator: the bytes between two pieces of decoded text.
      end_id: the id of the end token. No text is encoded to it, not even the literal "<end>", except by
        an imported tokenizer that finds the name of the token in a text.
      unknown_id: the id of `[UNK]`; None if every text can be encoded without it.
      padding_id: an id after the last token of a prompt of token ids, which is not part of the prompt.
      own_start_id: the id of the beginning-of-sentence token of a vocabulary for pairs. No text is encoded
        to it, and it is never drawn. None if there is none.
      byte_ids: the ids of bytes that the setting `vocab_size` does not count. They encode characters
        without a token of their own.
      chat: how dialogues are encoded; None if the model was not trained on dialogues.
    """

    separator: ClassVar[bytes] = b""
    end_id: int
    unknown_id: int | None
    padding_id: int | None = None
    own_start_id: int | None = None
    byte_ids: tuple[int, ...] = ()
    chat: ChatFormat | None = None

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = tuple(pieces)

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    @cached_property
    def never_sampled_ids(self) -> tuple[int, ...]:
        """The ids that a sampler must never draw: those without a text, except the end token."""
        return tuple(i for i, p in enumerate(self.pieces) if not p and i != self.end_id)

    def check_banned(self, ids: Sequence[int], name: str = "banned_tokens") -> None:
        """Raises a `UserError` for banned tokens that do not exist, or that leave no token to draw."""
        should = f"should be an id from 0 to {self.vocab_size - 1}"
        if wrong := sorted(token for token in ids if token >= self.vocab_size):
            raise UserError(*(ArgumentProblem(name, token, should) for token in wrong))
        if ids and len({*ids, *self.never_sampled_ids}) == self.vocab_size:
            raise UserError(f"{name}: bans all {self.vocab_size:,} tokens; should leave one")

    @abc.abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """Returns int32[T], the token ids of a text, without an end token."""

    def encode_plain(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encodes each text as `encode`, but never to special tokens, whatever a text contains."""
        return [self.encode(text) for text in texts]

    def encode_dialogues(self, dialogues: Sequence[Messages]) -> list[np.ndarray]:
        """Returns the ids of dialogues, int32[T] each.

        Args:
          dialogues: the messages of each, as `chat_format.check_messages` returns them. If the last message
            is a question, the ids that precede an answer follow it.
        """
        chat = self.chat
        assert chat is not None, "The tokenizer has no format for dialogues."
        contents = [message["content"] for messages in dialogues for message in messages]
        encoded = iter(self.encode_plain(contents))
        found = []
        for messages in dialogues:
            parts: list[Any] = [] if messages[0]["role"] == "system" else [chat.start]
            for message in messages:
                parts += [chat.before[message["role"]], next(encoded), chat.after[message["role"]]]
            if messages[-1]["role"] == "user":
                parts.append(chat.before["assistant"])
            found.append(np.concatenate([np.asarray(part, np.int32) for part in parts]))
        return found

    @property
    def dialogue_tokens(self) -> tuple[int, ...]:
        """The ids that only dialogues have: the tokens added for roles, and the end of an answer."""
        added = tuple(range(len(self.text_pieces), self.vocab_size))
        return (self.end_id, *added) if added else ()

    @property
    def text_pieces(self) -> tuple[bytes, ...]:
        """The pieces without the tokens that were added for roles."""
        return self.pieces[: len(self.pieces) - len(self.chat.added if self.chat else ())]

    @property
    def start_id(self) -> int:
        """The token before the first one of a target: `own_start_id`, or the end token without one."""
        return self.end_id if self.own_start_id is None else self.own_start_id

    def piece(self, token: int) -> str:
        """Returns a readable form of a token: its text, a name such as "<end>", or bytes as "<E2 82>"."""
        if token == self.own_start_id:
            return "<start>"
        if self.chat and token >= len(self.text_pieces):
            return self.chat.added[token - len(self.text_pieces)]
        if token in (self.unknown_id, self.end_id):
            return "[UNK]" if token == self.unknown_id else "<end>"
        try:
            return self._restore(self.pieces[token].decode())
        except UnicodeDecodeError:
            return f"<{self.pieces[token].hex(' ').upper()}>"

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Returns the text of any sequence of ids.

        Special tokens add nothing, except added tokens of an imported tokenizer. An incomplete character
        at the end is left out, because the next ids may complete it. Other bytes that are not valid UTF-8
        become U+FFFD.

        Raises:
          TypeError: an id is not an integer.
          ValueError: an id is outside the vocabulary.
        """
        ids = _as_integers(ids)
        outside = ids[(ids < 0) | (ids >= self.vocab_size)]
        if outside.size:
            raise ValueError(
                f"ids should be from 0 to {self.vocab_size - 1}. Received: {int(outside[0])}"
            )
        return self.decode_valid(ids.tolist())

    def decode_valid(self, ids: Iterable[int]) -> str:
        """Decodes ids from 0 to vocab_size - 1, as `decode`, without a check."""
        pieces = (self.pieces[i] for i in ids)
        return self.decode_bytes(self.separator.join(piece for piece in pieces if piece))

    def decode_bytes(self, data: bytes) -> str:
        """Returns the text of joined pieces, as `decode` does."""
        return self._restore(_UTF_8("replace").decode(data))

    def _restore(self, text: str) -> str:
        """Undoes the escaping of `encode`. Maps prefixes of a text to prefixes of its result."""
        return text

    def continuation(
        self, prompt_ids: Sequence[int] | np.ndarray, new_ids: Sequence[int] | np.ndarray
    ) -> str:
        """Returns the text that new ids add: decode(prompt + new) without decode(prompt)."""
        ids = np.concatenate([_as_integers(prompt_ids), _as_integers(new_ids)])
        return self.decode(ids)[len(self.decode(prompt_ids)) :]


def _as_integers(ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns the ids as int64[T]; TypeError if they are of a different type."""
    array = np.asarray(ids).reshape(-1)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"ids should be integers. Received: {array.dtype}")
    return array.astype(np.int64)


# sentencepiece writes a space as U+2581 and cannot distinguish it from a U+2581 of the text. Therefore
# a U+2581 of the text is replaced by an escape sequence, as is the escape character (DLE, which is rare).
SPACE, ESCAPE = "\u2581", "\x10"
ESCAPED_ESCAPE, ESCAPED_SPACE = ESCAPE + "a", ESCAPE + "b"


def escaped(text: str) -> str:
    """Replaces each U+2581 and each escape character."""
    return text.replace(ESCAPE, ESCAPED_ESCAPE).replace(SPACE, ESCAPED_SPACE)


def unescaped(text: str) -> str:
    """Undoes `escaped`. Maps prefixes of a text to prefixes of its result."""
    # An incomplete escape sequence is left out, because the next id may complete it.
    text = text.removesuffix(ESCAPE)
    return text.replace(ESCAPED_SPACE, SPACE).replace(ESCAPED_ESCAPE, ESCAPE)


# Bytes of a text that may still affect how the next token is decoded: an escape character, and a
# character of four bytes without its last byte.
_CONTEXT_BYTES = 4


class ContinuationText:
    """Text of a continuation of a prompt, up to its stop string, in constant time per token.

    Tokens are decoded together with the few tokens before them that determine their text: without stop
    strings, the joined results equal `Vocabulary.continuation`.

    Attributes:
      stopped: whether a stop string was found.
      tokens: the tokens that were pushed; the last one completed the stop string, if there is one.
    """

    def __init__(
        self,
        tokenizer: Vocabulary,
        prompt_ids: Sequence[int] | np.ndarray,
        stops: Sequence[str] = (),
    ) -> None:
        self.stopped = False
        self.tokens: list[int] = []
        self.stops = stops
        self._held = ""
        self._tokenizer = tokenizer
        self._set_context(np.asarray(prompt_ids).tolist())

    def preview(self, *tokens: int) -> str:
        """Returns the text that tokens would add; a character is held back until it is complete."""
        return self._tokenizer.decode([*self._context, *tokens])[len(self._decoded) :]

    def push(self, tokens: Iterable[int]) -> str:
        """Returns the text that tokens add, without a possible start of a stop string at its end.

        Tokens after a stop string are ignored.
        """
        if not self.stops:
            new = list(tokens)
            self.tokens += new
            return self._decoded_text(*new)
        ready = []
        for token in tokens:
            if self.stopped:
                break
            self.tokens.append(token)
            self._held += self._decoded_text(token)
            stop = find_stop(self._held, self.stops)
            if stop is None:
                end = len(self._held) - partial_stop_length(self._held, self.stops)
                ready.append(self._held[:end])
                self._held = self._held[end:]
            else:
                self.stopped = True
                ready.append(self._held[:stop])
                self._held = ""
        return "".join(ready)

    def _decoded_text(self, *tokens: int) -> str:
        text = self.preview(*tokens)
        self._set_context([*self._context, *tokens])
        return text

    def _set_context(self, tokens: list[int]) -> None:
        """Keeps the newest tokens that determine how the next ones are decoded."""
        context: list[int] = []
        size = 0
        for token in reversed(tokens):
            if size >= _CONTEXT_BYTES:
                break
            if piece := self._tokenizer.pieces[token]:
                size += len(piece)
                context.append(token)
        self._context = context[::-1]
        self._decoded = self._tokenizer.decode_valid(self._context)

    def finish(self) -> str:
        """Returns the text that was held back; call it after the last token."""
        held, self._held = self._held, ""
        return held

    def written(self, parts: Iterable[Iterable[int]]) -> Iterator[str]:
        """Yields the text of tokens as soon as it is certain, up to the stop string."""
        for tokens in parts:
            if ready := self.push(tokens):
                yield ready
            if self.stopped:
                return
        if held := self.finish():
            yield held


def find_stop(text: str, stops: Sequence[str]) -> int | None:
    """Returns the index where `text` is cut, or None if it contains no stop string; "" is none."""
    starts = [(text.find(stop), len(stop)) for stop in stops if stop]
    matches = [(start + length, start) for start, length in starts if start >= 0]
    return min(matches)[1] if matches else None


def partial_stop_length(text: str, stops: Sequence[str]) -> int:
    """Returns the length of the longest end of `text` that may be the start of a stop string."""
    lengths = (n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n]))
    return max(lengths, default=0)
