"""The thread of an engine: it starts texts in free slots, does steps, and delivers what is new."""

import asyncio
import threading
import time
import traceback
from typing import TYPE_CHECKING

from minigpt.serving.generation import Generation, Part
from minigpt.targets.gguf.batch import ENDED, NOTHING_NEW, BatchEngine

if TYPE_CHECKING:
    from minigpt.serving.scheduler import Scheduler

# Parts of texts are delivered at least this often. Each delivery interrupts the event loop.
_DELIVERY_SECONDS = 0.01


class EngineThread:
    """A thread that continues up to `slots` texts together.

    Args:
      engine: an engine with an open batch.
      slots: the size of the batch.
      scheduler: where the texts come from.
    """

    def __init__(self, engine: BatchEngine, slots: int, scheduler: "Scheduler") -> None:
        self._engine, self._scheduler = engine, scheduler
        self._texts: dict[int, Generation] = {}
        self._free = list(range(slots))
        self._undelivered: dict[Generation, None] = {}
        self._delivered = 0.0
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the thread."""
        self._loop = loop
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Waits until the thread has ended, but not longer than some seconds."""
        self._thread.join(seconds)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        while True:
            work = self._scheduler.take(len(self._free), wait=not self._texts)
            if work is None:
                return
            for item in work:
                if isinstance(item, Generation):
                    self._begin(item)
                else:
                    item.run(self._engine)
            for slot in [s for s, text in self._texts.items() if text.is_cancelled]:
                self._end(slot)
            if self._texts:
                self._step()
            self._deliver()

    def _begin(self, text: Generation) -> None:
        request, slot = text.request, self._free.pop()
        self._texts[slot] = text
        try:
            self._engine.start_slot(
                slot,
                request.prompt_ids,
                request.settings,
                request.seed,
                biases=request.biases,
                frequency_penalty=request.frequency_penalty,
                presence_penalty=request.presence_penalty,
                records=request.top_logprobs is not None,
            )
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
            records = text.request.top_logprobs is not None
            if text.push(token, self._engine.choice(slot) if records else None):
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
        self._scheduler.release(1)

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


def _deliver(parts: list[tuple[Generation, Part]]) -> None:
    for text, part in parts:
        text.deliver(part)
