"""Text of a continuation, token by token: incremental detokenization and stop strings."""

from collections.abc import Iterable, Sequence

import numpy as np

from minigpt.tokenizers.stop_strings import find_stop, partial_stop_length
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
        """Returns the text that tokens would add.

        Raises:
          ValueError: a token is outside the vocabulary.
        """
        for token in tokens:
            if not 0 <= token < self._tokenizer.vocab_size:
                raise ValueError(
                    f"tokens should be from 0 to {self._tokenizer.vocab_size - 1}. Received: {token}"
                )
        return self._tokenizer.decode_valid([*self._context, *tokens])[len(self._decoded) :]

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
