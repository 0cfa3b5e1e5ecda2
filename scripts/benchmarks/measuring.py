"""Shared by all measurements: time, memory, the speed of steady steps, sizes, an artificial text."""

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The result of a measurement: "value" in the unit of the case, "memory" in bytes, and what its case needs.
Outcome = dict[str, Any]
PROMPT = "Once upon a time"
# The first updates, which compile and allocate, are not counted.
FIRST = 2


def seconds_since_start() -> float:
    """Returns the seconds since the process was started."""
    return time.time() - float(os.environ["BENCHMARK_STARTED"])


def resident(field: str = "VmRSS") -> int:
    """Returns the memory of this process in bytes: VmRSS or VmHWM (the peak), as Linux counts."""
    status = Path("/proc/self/status")
    if not status.exists():
        # macOS reports the peak, in bytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = next(line for line in status.read_text().splitlines() if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])


class Finished(BaseException):
    """Ends the training when the measurement is complete."""


class SteadySpeed:
    """Measures tokens per second, without the first steps.

    Args:
      tokens_per_step: B · T.
      steps, seconds: the measurement ends after at least this many steps and this much time.
    """

    def __init__(self, tokens_per_step: int, steps: int, seconds: float) -> None:
        self.tokens_per_step, self.steps, self.seconds = tokens_per_step, steps, seconds
        self._began: tuple[float, int] | None = None
        self._imported = resident()
        self.tokens_per_second = 0.0

    def seen(self, step: int) -> bool:
        """Records that `step` updates are done; returns whether the measurement is complete."""
        now = time.perf_counter()
        if self._began is None:
            if step >= FIRST:
                self._began = (now, step)
            return False
        seconds, counted = now - self._began[0], step - self._began[1]
        self.tokens_per_second = counted * self.tokens_per_step / seconds
        return counted >= self.steps and seconds >= self.seconds

    def outcome(self) -> Outcome:
        memory = resident("VmHWM") - self._imported
        return {"value": self.tokens_per_second, "memory": memory}


def watching(observe: Callable[[Any, int], None]) -> Any:
    """Returns a Keras callback that calls `observe(model, number of updates)`, first with 0 updates."""
    import keras

    class Watch(keras.callbacks.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            observe(self.model, 0)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            # Read from the optimizer, because one call may make several updates.
            observe(self.model, int(self.model.optimizer.iterations))

    return Watch()


def timed(call: Callable[[int], Any], calls: int) -> tuple[float, list[Any]]:
    """Returns the median seconds of `call(0)`, `call(1)`, …, and the results; the first is not counted."""
    taken, results = [], []
    for number in range(1 + calls):
        began = time.perf_counter()
        results.append(call(number))
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:]), results


def seconds_to_word(command: list[str]) -> Outcome:
    """Returns the seconds from the start of a command to its first text after PROMPT.

    Args:
      command: prints PROMPT, then its continuation, as soon as there is some. It is then killed.
    Raises:
      ValueError: the command prints something else, or nothing.
    """
    began, printed = time.perf_counter(), b""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            while new := os.read(process.stdout.fileno(), 1 << 16):
                seconds = time.perf_counter() - began
                printed += new
                text = printed.decode(errors="replace").lstrip()
                if not text.startswith(PROMPT[: len(text)]):
                    break
                if text[len(PROMPT) :].strip():
                    return {"value": seconds}
        finally:
            process.kill()
    raise ValueError(f"{command}: printed {printed[:200]!r}; should be the prompt and a text")


@dataclass(frozen=True)
class Sizes:
    """Sizes of a GPT and its batches, as V, T, D, H, K, F, L and B in minigpt.

    `context` is the maximum sequence length of the model, `length` the sequence length of a training batch.
    """

    vocab_size: int
    context: int
    length: int
    embed_dim: int
    num_heads: int
    head_dim: int
    ff_dim: int
    num_layers: int
    batch_size: int

    @property
    def tokens_per_step(self) -> int:
        return self.batch_size * self.length


# The Keras tutorial's.
WORDS = Sizes(20000, 80, 80, 256, 2, 256, 256, 1, 128)
# nanoGPT's for characters on a CPU.
CHARACTERS = Sizes(65, 64, 64, 128, 4, 32, 512, 4, 12)
# GPT-2's block, whatever the default configuration has.
DEFAULT = Sizes(2048, 128, 128, 192, 4, 48, 768, 4, 16)
SMALL = Sizes(8192, 256, 256, 256, 4, 64, 1024, 4, 1)
ENGINE = {
    "2m": Sizes(2048, 256, 256, 192, 4, 48, 768, 4, 1),
    "20m": Sizes(8192, 512, 512, 384, 6, 64, 1536, 8, 1),
    "124m": Sizes(50257, 1024, 256, 768, 12, 64, 3072, 12, 4),
}


def words(count: int) -> list[str]:
    """Returns distinct words."""
    consonants, vowels = "bcdfghjklmnprstvwz", "aeiou"
    syllables = [consonant + vowel for consonant in consonants for vowel in vowels]
    return [
        syllables[i % 90] + syllables[i // 90 % 90] + syllables[i // 8100] for i in range(count)
    ]


def write_text(path: Path, size: int, vocab_size: int) -> None:
    """Writes `size` bytes: all words, then words by Zipf's law in paragraphs. An existing file is kept."""
    import numpy as np

    if path.exists():
        return
    known, draw = np.array(words(vocab_size)), np.random.default_rng(0)
    shares = 1 / (np.arange(vocab_size) + 3.0)
    parts, written = [" ".join(known)], 7 * vocab_size
    while written < size:
        paragraph = " ".join(draw.choice(known, 200, p=shares / shares.sum()))
        parts.append(paragraph)
        written += len(paragraph) + 3
    path.write_text(".\n\n".join(parts)[:size], encoding="ascii")
