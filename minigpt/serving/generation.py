"""A text that the server generates: how it is started, and the parts that are ready."""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from minigpt.targets.gguf.instance import BatchEngine, Choice
from minigpt.tokenizers.vocabulary import ContinuationText, Vocabulary

# OpenAI's number for a probability of zero: JSON has no infinity.
_ZERO_PROBABILITY = -9999.0


@dataclass(frozen=True)
class TokenDescription:
    """A token of a text and its logarithmic probabilities.

    Attributes:
      name: what the token adds to the text; a readable form such as "<E2 82>" if that is nothing.
      length: how many characters it adds.
      logprob: its own; None for the first token of a prompt.
      top: those of the most probable tokens, by name.
    """

    name: str
    length: int
    logprob: float | None = None
    top: dict[str, float] | None = None


@dataclass
class TextPart:
    """New text of a generation, the number of its tokens, and their descriptions if these are asked for.

    `finish_reason` is "stop" or "length" in the last part of a text, "error" if it could not be finished.
    """

    text: str = ""
    token_count: int = 0
    tokens: list[TokenDescription] = field(default_factory=list)
    finish_reason: str | None = None

    def __add__(self, other: "TextPart") -> "TextPart":
        return TextPart(
            self.text + other.text,
            self.token_count + other.token_count,
            self.tokens + other.tokens,
            other.finish_reason,
        )


class Describer:
    """Describes the tokens of a text, one after the other, with some of the most probable ones for each."""

    def __init__(self, tokenizer: Vocabulary, prompt_ids: Sequence[int], top_logprobs: int) -> None:
        self._tokenizer, self._top_logprobs = tokenizer, top_logprobs
        self._continued = ContinuationText(tokenizer, prompt_ids)

    def push(self, token: int, choice: Choice | None) -> TokenDescription:
        """Returns the description of the next token. `choice` has its probabilities if it was generated."""
        name = self._name(token)
        if choice is None:
            return TokenDescription(name, len(self._continued.push([token])))
        own = _logarithm(choice.probability)
        most = [
            (self._name(i), _logarithm(probability))
            for i, probability in zip(choice.ids, choice.probabilities, strict=True)
            if i < self._tokenizer.vocab_size
        ]
        # Two tokens may add the same text; the first one is the more probable.
        top = dict(reversed(most[: self._top_logprobs]))
        if self._top_logprobs:
            top[name] = own
        return TokenDescription(name, len(self._continued.push([token])), own, top)

    def _name(self, token: int) -> str:
        return self._continued.preview(token) or self._tokenizer.piece(token)


def _logarithm(probability: float) -> float:
    return math.log(probability) if probability > 0 else _ZERO_PROBABILITY


class Generation:
    """A text on its way from an engine's thread to the event loop that has asked for it.

    Args:
      start: starts the text in a slot of an engine.
      text: collects its tokens.
      max_new_tokens: its length, at least 1.
      describer: describes its tokens, if these are asked for.
      event: set by the event loop when a part is ready; several texts may share it.
      streams: whether parts are delivered before the text is finished. Each delivery takes time.
    Attributes:
      is_cancelled: whether the client no longer waits for the text.
    """

    def __init__(
        self,
        start: Callable[[BatchEngine, int], None],
        text: ContinuationText,
        max_new_tokens: int,
        describer: Describer | None,
        event: asyncio.Event,
        streams: bool,
    ) -> None:
        self.start, self.describer = start, describer
        self.is_cancelled = False
        self._streams, self._left = streams, max_new_tokens
        # The thread's.
        self._text = text
        self._new: list[int] = []  # Tokens whose text is not known yet.
        self._held: deque[TokenDescription] = deque()
        # Characters of the text that are not held back, minus those of `tokens`.
        self._released = 0
        self._pending = TextPart()
        # The event loop's.
        self._ready: TextPart | None = None
        self._event = event

    def push(self, token: int, choice: Choice | None) -> bool:
        """Adds a token. Called by the engine's thread. Returns whether the text is finished by it."""
        self._left -= 1
        self._pending.token_count += 1
        self._new.append(token)
        # Without stop strings, several tokens are decoded at once, when their text is wanted.
        if choice is not None or self._text.stops:
            self._decode()
        if self.describer and choice is not None:
            self._held.append(self.describer.push(token, choice))
            self._release_tokens()
        if self._text.stopped:
            self._pending.finish_reason = "stop"
        elif self._left <= 0:
            self.finish("length")
        return self._pending.finish_reason is not None

    def finish(self, reason: str) -> None:
        """Ends the text. Called by the engine's thread."""
        self._decode()
        self._add_text(self._text.finish())
        self._release_tokens()
        # What is left adds no text, such as a part of a character.
        self._pending.tokens += self._held
        self._pending.finish_reason = reason

    def _decode(self) -> None:
        self._add_text(self._text.push(self._new))
        self._new.clear()

    def _add_text(self, text: str) -> None:
        self._pending.text += text
        self._released += len(text)

    def _release_tokens(self) -> None:
        """Adds the descriptions of the tokens whose text is not held back: a stop string has none."""
        while self._held and self._released > 0:
            self._released -= self._held[0].length
            self._pending.tokens.append(self._held.popleft())

    @property
    def has_wanted_part(self) -> bool:
        """Whether something is to be delivered. Called by the engine's thread."""
        return self._streams or self._pending.finish_reason is not None

    def take_pending(self) -> TextPart:
        """Returns what was added since the last call. Called by the engine's thread."""
        self._decode()
        pending, self._pending = self._pending, TextPart()
        return pending

    def deliver(self, part: TextPart) -> None:
        """Makes a part available. Called by the event loop."""
        self._ready = part if self._ready is None else self._ready + part
        self._event.set()

    def take(self) -> TextPart | None:
        """Returns what was delivered since the last call; None if nothing was."""
        ready, self._ready = self._ready, None
        return ready
