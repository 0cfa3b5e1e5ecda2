"""Text of a continuation, token by token: incremental detokenization and stop strings.

Stop strings end a text and are not part of it. If a text contains several, it is cut at the one that is
completed first. If several are completed at the same character, it is cut at the longest. Appending to a
text never changes where it is cut. `graph.base.cut_at_stop` has the same rules in a TensorFlow graph.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from minigpt.tokenizers.vocabulary import Vocabulary

# Bytes of a text that may still affect how the next token is decoded: an escape character, and a
# character of four bytes without its last byte.
_CONTEXT_BYTES = 4


class IncrementalDetokenizer:
    """Decodes a continuation in parts of any number of tokens, in constant time per token.

    Each part is decoded together with the few tokens before it that determine its text: the joined
    results equal `Vocabulary.continuation`.

    Args:
      tokenizer: the tokenizer.
      prompt_ids: int32[P].
    """

    def __init__(self, tokenizer: Vocabulary, prompt_ids: Sequence[int] | np.ndarray) -> None:
        self._tokenizer = tokenizer
        self._set_context(np.asarray(prompt_ids).tolist())

    def push(self, *tokens: int) -> str:
        """Returns the text that tokens add; a character is held back until it is complete.

        Raises:
          ValueError: a token is outside the vocabulary.
        """
        text = self.preview(*tokens)
        self._set_context([*self._context, *tokens])
        return text

    def preview(self, *tokens: int) -> str:
        """Returns the text that `push` would return."""
        return self._tokenizer.decode([*self._context, *tokens])[len(self._decoded) :]

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


class ContinuationText:
    """Text of a continuation up to its stop string, token by token.

    Args:
      tokenizer: the tokenizer.
      prompt_ids: int32[P].
      stops: stop strings.

    Attributes:
      stopped: whether a stop string was found.
      tokens: the tokens that were pushed; the last one completed the stop string, if there is one.
    """

    def __init__(
        self, tokenizer: Vocabulary, prompt_ids: Sequence[int] | np.ndarray, stops: Sequence[str]
    ) -> None:
        self.stopped = False
        self.tokens: list[int] = []
        self._detokenizer = IncrementalDetokenizer(tokenizer, prompt_ids)
        self._stops = stops
        self._held = ""

    def push(self, tokens: Iterable[int]) -> str:
        """Returns the text that tokens add, without a possible start of a stop string at its end.

        Tokens after a stop string are ignored.
        """
        if not self._stops:
            new = list(tokens)
            self.tokens += new
            return self._detokenizer.push(*new)
        ready = []
        for token in tokens:
            if self.stopped:
                break
            self.tokens.append(token)
            self._held += self._detokenizer.push(token)
            stop = find_stop(self._held, self._stops)
            if stop is None:
                end = len(self._held) - partial_stop_length(self._held, self._stops)
                ready.append(self._held[:end])
                self._held = self._held[end:]
            else:
                self.stopped = True
                ready.append(self._held[:stop])
                self._held = ""
        return "".join(ready)

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
    """Returns the index where `text` is cut, or None if it contains no stop string.

    Args:
      text: any string.
      stops: stop strings; an empty one has no effect.
    """
    starts = [(text.find(stop), len(stop)) for stop in stops if stop]
    matches = [(start + length, start) for start, length in starts if start >= 0]
    return min(matches)[1] if matches else None


def partial_stop_length(text: str, stops: Sequence[str]) -> int:
    """Returns the length of the longest end of `text` that may be the start of a stop string."""
    lengths = (n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n]))
    return max(lengths, default=0)
