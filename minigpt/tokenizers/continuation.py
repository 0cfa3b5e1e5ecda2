"""Text of a continuation, token by token: incremental detokenization and stop strings."""

from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from minigpt.tokenizers.stop_strings import find_stop, partial_stop_length
from minigpt.tokenizers.vocabulary import Vocabulary

# Bytes of a text that may still affect how the next token is decoded: an escape character, and a
# character of four bytes without its last byte.
_CONTEXT_BYTES = 4


class IncrementalDetokenizer:
    """Decodes a continuation token by token, in constant time per token.

    Each token is decoded together with the few tokens before it that determine its text: the joined
    results equal `Vocabulary.continuation`.

    Args:
      tokenizer: the tokenizer.
      prompt_ids: int32[P].
    """

    def __init__(self, tokenizer: Vocabulary, prompt_ids: Sequence[int] | np.ndarray) -> None:
        self._tokenizer = tokenizer
        self._context: deque[int] = deque()
        self._context_bytes = 0
        for token in reversed(np.asarray(prompt_ids).tolist()):
            if self._context_bytes >= _CONTEXT_BYTES:
                break
            self._context_bytes += len(tokenizer.pieces[token])
            if tokenizer.pieces[token]:
                self._context.appendleft(token)
        self._decoded = tokenizer.decode(list(self._context))

    def push(self, token: int) -> str:
        """Returns the text that a token adds; a character is held back until it is complete.

        Raises:
          ValueError: the token is outside the vocabulary.
        """
        text = self.preview(token)
        if size := len(self._tokenizer.pieces[token]):
            self._context.append(token)
            self._context_bytes += size
            self._drop_old_tokens()
            self._decoded = self._tokenizer.decode(list(self._context))
        return text

    def preview(self, token: int) -> str:
        """Returns the text that a token would add.

        Raises:
          ValueError: the token is outside the vocabulary.
        """
        return self._tokenizer.decode([*self._context, token])[len(self._decoded) :]

    def _drop_old_tokens(self) -> None:
        pieces = self._tokenizer.pieces
        while self._context_bytes - len(pieces[self._context[0]]) >= _CONTEXT_BYTES:
            self._context_bytes -= len(pieces[self._context.popleft()])


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
