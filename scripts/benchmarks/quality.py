"""Measures seconds to a loss on the last tenth of tiny Shakespeare: evaluation, and minigpt's side."""

import math
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from benchmarks.measuring import Context, Outcome
from benchmarks.sizes import CHARACTERS
from benchmarks.watching import Finished

# Updates between two evaluations.
EVERY = 25
# A quick evaluation uses one window of this many ...
_ONE_OF = 16
# ... and a full one follows if its loss is at most this many bits above the target.
_NEAR = 0.12
_ROWS = 64

# (inputs, targets), int[B, T] each → the summed loss of each row in nats, float[B].
Nats = Callable[[np.ndarray, np.ndarray], np.ndarray]


def prepare(context: Context, shakespeare: str | None) -> Outcome:
    """Copies the text to the folder that both sides read."""
    if shakespeare is None:
        from minigpt.config import SHAKESPEARE_SHA256, SHAKESPEARE_URL
        from minigpt.storage.downloads import download

        shakespeare = str(download(SHAKESPEARE_URL, SHAKESPEARE_SHA256))
    path = _path(context)
    shutil.copyfile(shakespeare, path)
    return {"value": path.stat().st_size}


def _path(context: Context) -> Path:
    return context.work / "shakespeare.txt"


def text_of(context: Context) -> str:
    return _path(context).read_text(encoding="utf-8")


def held_out(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the training part and the last tenth."""
    edge = int(len(ids) * 0.9)
    return ids[:edge], ids[edge:]


def windows(ids: np.ndarray, one_of: int = 1) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Yields batches of every n-th adjacent window, all of one size.

    Each is (inputs, targets, number of valid rows). An incomplete last window is left out; it
    is less than a thousandth of the text.
    """
    count, length = (len(ids) - 1) // CHARACTERS.length, CHARACTERS.length
    inputs = ids[: count * length].reshape(count, length)[::one_of]
    targets = ids[1 : count * length + 1].reshape(count, length)[::one_of]
    for first in range(0, len(inputs), _ROWS):
        # Another shape would be compiled again.
        rows = np.minimum(np.arange(first, first + _ROWS), len(inputs) - 1)
        yield inputs[rows], targets[rows], min(_ROWS, len(inputs) - first)


class Looks:
    """Evaluates a model during training; the time of the evaluation is not counted.

    Args:
      context: gives the seconds since the start of the process.
      ids: the held-out text, one token per byte.
      nats: computes the loss of a batch.
      bits: the target in bits per byte.
    """

    def __init__(self, context: Context, ids: np.ndarray, nats: Nats, bits: float) -> None:
        self.context, self.ids, self.nats, self.bits = context, ids, nats, bits
        self.last = math.inf
        self._next = EVERY
        self._looking = 0.0
        self._seconds = 0.0

    def good_enough(self, step: int) -> bool:
        """Evaluates every EVERY updates; returns whether the loss is below the target."""
        if step < self._next:
            return False
        self._next = step - step % EVERY + EVERY
        began = time.perf_counter()
        self._seconds = self.context.seconds() - self._looking
        self.last = self._loss(_ONE_OF)
        reached = self.last < self.bits + _NEAR
        if reached:
            self.last = self._loss(1)
            reached = self.last < self.bits
        self._looking += time.perf_counter() - began
        return reached

    def outcome(self, step: int) -> Outcome:
        return {"value": self._seconds, "step": step, "bits": self.last}

    def _loss(self, one_of: int) -> float:
        total = count = 0.0
        for inputs, targets, rows in windows(self.ids, one_of):
            total += float(self.nats(inputs, targets)[:rows].sum())
            count += targets[:rows].size
        return total / count / math.log(2)


def ours(context: Context, bits: float) -> Outcome:
    """Measures `minigpt train --config shakespeare_character`, token store included."""
    import os

    from benchmarks.our_training import train

    os.environ["MINIGPT_CACHE"] = mkdtemp(dir=context.work)
    import minigpt

    recipe = minigpt.load_config("shakespeare_character").training
    # One epoch with all steps, because validation after each epoch would count as training time.
    steps = recipe.epochs * (recipe.steps_per_epoch or 0)
    config = minigpt.load_config(
        "shakespeare_character",
        [
            f"data.url={_path(context).as_uri()}",
            "training.epochs=1",
            f"training.steps_per_epoch={steps}",
        ],
    )
    looks: list[Looks] = []
    found: list[Outcome] = []

    def look(model: Any, step: int, event: str) -> None:
        if event == "begin":
            looks.append(Looks(context, _our_ids(config), _our_nats(model), bits))
        elif looks[0].good_enough(step):
            found.append(looks[0].outcome(step))
            raise Finished
        elif step >= steps:
            found.append({"failed": f"{looks[0].last:.3f} bits per byte after all {steps} steps"})
            raise Finished

    train(context, config, look)
    return found[0]


def _our_ids(config: Any) -> np.ndarray:
    """Returns the token ids of the last tenth, from the new token store."""
    from minigpt.corpus.token_store import open_corpus

    # The first and the last id are the end tokens around the text.
    ids = np.asarray(open_corpus(config.data, config.tokenizer).val.ids[1:-1])
    return ids.astype(np.int32)


def _our_nats(model: Any) -> Nats:
    import tensorflow as tf

    # Compiling with XLA would take longer than all evaluations.
    @tf.function
    def summed(inputs: Any, targets: Any) -> Any:
        logits = model(inputs, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        return tf.reduce_sum(losses, axis=1)

    return lambda inputs, targets: summed(tf.constant(inputs), tf.constant(targets)).numpy()
