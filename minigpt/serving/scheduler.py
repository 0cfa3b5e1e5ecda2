"""The texts that the engines generate: their parts, the threads of the engines, and the common queue."""

import asyncio
import math
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minigpt.serving.bodies import RequestError
from minigpt.targets.gguf.instance import ENDED, NOTHING_NEW, BatchEngine, Choice
from minigpt.tokenizers.vocabulary import ContinuationText, Vocabulary

# OpenAI's number for a probability of zero: JSON has no infinity.
_ZERO_PROBABILITY = -9999.0
# A step, or reading a text, takes less.
_JOIN_SECONDS = 1.5
# Parts of texts are delivered at least this often. Each delivery interrupts the event loop.
_DELIVERY_SECONDS = 0.01


@dataclass(frozen=True)
class TokenDescription:
    """A token of a text and its logarithmic probabilities.

    Attributes:
      name: what the token adds to the text; a readable form such as "<E2 82>" if that is nothing.
      length: how many characters it adds.
      logprob: its own.
      top: those of the most probable tokens, by name.
    """

    name: str
    length: int
    logprob: float
    top: dict[str, float]


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

    def push(self, token: int, choice: Choice) -> TokenDescription:
        """Returns the description of the next token."""
        name, own = self._name(token), _logarithm(choice.probability)
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


class Scheduler:
    """Engines, each with a thread, which take texts from a common queue.

    Args:
      path: a portable file.
      threads: how many engines; each has its own copy of the weights.
      slots: how many texts an engine continues together.
      most_tokens: the maximum number of tokens of a text, prompt included.
      most_waiting: how many texts may wait when all slots are taken.
    Attributes:
      capacity: how many texts there can be at a time.
      running: number of texts that the engines continue.
    """

    def __init__(
        self, path: Path, threads: int, slots: int, most_tokens: int, most_waiting: int
    ) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Generation] = deque()
        self.running = 0
        self._is_closed = False
        self.capacity = threads * slots + most_waiting
        self._slots = slots
        self._engines = [BatchEngine(path) for _ in range(threads)]
        for engine in self._engines:
            engine.open_batch(slots, most_tokens)
        self._threads: list[_EngineThread] = []

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the threads; they deliver to this event loop."""
        self._threads = [_EngineThread(engine, self._slots, self, loop) for engine in self._engines]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Ends the threads, after their current steps."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)

    @property
    def is_healthy(self) -> bool:
        """Whether all threads run."""
        return all(thread.is_alive() for thread in self._threads)

    @property
    def waiting(self) -> int:
        """Number of texts that wait."""
        return len(self._waiting)

    def submit(self, texts: Sequence[Generation]) -> None:
        """Adds texts to the queue; refuses them if they are too many, at all or now."""
        if len(texts) > self.capacity:
            message = f"the request has {len(texts)} texts; should have at most {self.capacity}"
            raise RequestError(400, message)
        with self._changed:
            if self.running + len(self._waiting) + len(texts) > self.capacity:
                raise RequestError(429, "too many requests wait; try again later")
            self._waiting.extend(texts)
            self._changed.notify_all()

    def cancel(self, unwanted: Sequence[Generation]) -> None:
        """Ends texts whose client no longer waits; finished texts stay as they are."""
        with self._changed:
            for text in unwanted:
                text.is_cancelled = True
            self._waiting = deque(text for text in self._waiting if not text.is_cancelled)

    def take(self, free: int, wait: bool) -> list[Generation] | None:
        """Takes up to `free` texts from the queue; None at the end.

        Called by the engines' threads; waits for a text if `wait` is true.
        """
        with self._changed:
            while wait and not self._waiting and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            # The other threads take their shares.
            free = min(free, -(-len(self._waiting) // len(self._engines)))
            self.running += free
            return [self._waiting.popleft() for _ in range(free)]

    def release(self) -> None:
        """Counts a text that no longer runs. Called by the engines' threads."""
        with self._changed:
            self.running -= 1


class _EngineThread(threading.Thread):
    """Starts texts in the free slots of an engine, does steps, and delivers what is new to a loop."""

    def __init__(
        self, engine: BatchEngine, slots: int, scheduler: Scheduler, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(name="engine", daemon=True)
        self._engine, self._scheduler, self._loop = engine, scheduler, loop
        self._texts: dict[int, Generation] = {}
        self._free = list(range(slots))
        self._undelivered: dict[Generation, None] = {}
        self._delivered = 0.0

    def run(self) -> None:
        while True:
            texts = self._scheduler.take(len(self._free), wait=not self._texts)
            if texts is None:
                return
            for text in texts:
                self._begin(text)
            for slot in [s for s, text in self._texts.items() if text.is_cancelled]:
                self._end(slot)
            if self._texts:
                self._step()
            self._deliver()

    def _begin(self, text: Generation) -> None:
        slot = self._free.pop()
        self._texts[slot] = text
        try:
            text.start(self._engine, slot)
        except Exception:
            traceback.print_exc()
            self._finish(slot, "error")

    def _step(self) -> None:
        try:
            results = self._engine.step()
        except Exception:
            # For example, there is no memory left. The texts cannot be continued, but others can.
            traceback.print_exc()
            for slot in list(self._texts):
                self._finish(slot, "error")
            return
        for slot, text in list(self._texts.items()):
            token = results[slot]
            if token == ENDED:
                self._finish(slot, "stop")
            elif token != NOTHING_NEW:
                self._add(slot, text, token)

    def _add(self, slot: int, text: Generation, token: int) -> None:
        self._undelivered[text] = None
        try:
            if text.push(token, self._engine.choice(slot) if text.describer else None):
                self._end(slot)
        except Exception:
            traceback.print_exc()
            self._finish(slot, "error")

    def _finish(self, slot: int, reason: str) -> None:
        text = self._texts[slot]
        text.finish(reason)
        self._undelivered[text] = None
        self._end(slot)

    def _end(self, slot: int) -> None:
        self._engine.close_slot(slot)
        del self._texts[slot]
        self._free.append(slot)
        self._scheduler.release()

    def _deliver(self) -> None:
        now = time.monotonic()
        if self._texts and now - self._delivered < _DELIVERY_SECONDS:
            return
        if self._undelivered:
            wanted = [text for text in self._undelivered if text.has_wanted_part]
            self._undelivered.clear()
            self._delivered = now
            if wanted:
                parts = [(text, text.take_pending()) for text in wanted]
                self._loop.call_soon_threadsafe(_deliver, parts)


def _deliver(parts: list[tuple[Generation, TextPart]]) -> None:
    for text, part in parts:
        text.deliver(part)
