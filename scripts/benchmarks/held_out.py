"""The score on held-out text: one function for minigpt and all peers.

A score is a sum of losses in nats, divided by a number that depends on the text alone: bytes times ln 2 for
bits per byte, words for nats per word.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

# (inputs, targets), int[B, T] each → the loss of each target in nats, float[B, T].
Nats = Callable[[np.ndarray, np.ndarray], np.ndarray]
_ROWS = 64
# Limit for the logits of a batch, float32[B, T, V].
_LOGITS = 1 << 24
# A character that a vocabulary lacks is one of this many. Without its cost, bits per byte are undefined.
CODE_POINTS = 0x110000


@dataclass(frozen=True)
class HeldOut:
    """Held-out text in the tokens of one model.

    Attributes:
      inputs, targets: int32[N, T].
      counted: bool[N, T], which targets count.
      units: the score is the total loss in nats, divided by this number.
      vocab_size: V; limits the rows of a batch.
      extra_nats: added to the total loss, for characters that the vocabulary lacks.
      overlapping: the same targets in windows that overlap by half, so that each target but the first ones
        has at least half a context before it; None if the text has no windows.
    """

    inputs: np.ndarray
    targets: np.ndarray
    counted: np.ndarray
    units: float
    vocab_size: int
    extra_nats: float = 0.0
    overlapping: "HeldOut | None" = None

    def score(self, nats: Nats, one_of: int = 1) -> float:
        """Returns the score of a model, measured or, from every n-th row only, estimated.

        All batches have one shape, because another one would be compiled again.
        """
        chosen = np.arange(0, len(self.inputs), one_of)
        size = max(1, min(_ROWS, _LOGITS // (self.inputs.shape[1] * self.vocab_size)))
        total, count = 0.0, 0
        for first in range(0, len(chosen), size):
            valid = min(size, len(chosen) - first)
            rows = chosen[np.minimum(np.arange(first, first + size), len(chosen) - 1)]
            losses = np.asarray(nats(self.inputs[rows], self.targets[rows]), np.float64)
            counted = self.counted[rows[:valid]]
            total += float(losses[:valid][counted].sum())
            count += int(counted.sum())
        return (total / count * int(self.counted.sum()) + self.extra_nats) / self.units


def windows(
    ids: np.ndarray, length: int, n_bytes: int, vocab_size: int, unknown: int = 0
) -> HeldOut:
    """Returns a text in adjacent windows, to be scored in bits per byte; the last window is padded.

    Args:
      ids: int[n + 1]. The first one is not predicted.
      length: T.
      n_bytes: bytes of the text.
      unknown: number of characters that the vocabulary lacks.
    """
    n_tokens = len(ids) - 1
    extra = unknown * math.log(CODE_POINTS)

    def moved_by(stride: int) -> HeldOut:
        count = 1 + max(0, -(-(n_tokens - length) // stride))
        padded = np.zeros((2, (count - 1) * stride + length), np.int32)
        padded[:, :n_tokens] = ids[:-1], ids[1:]
        inputs, targets = sliding_window_view(padded, length, axis=1)[:, ::stride]
        positions = stride * np.arange(count)[:, None] + np.arange(length)
        counted = positions < n_tokens
        counted[1:, : length - stride] = False
        return HeldOut(inputs, targets, counted, n_bytes * math.log(2), vocab_size, extra)

    return replace(moved_by(length), overlapping=moved_by(max(1, length // 2)))


def beginnings(rows: np.ndarray, vocab_size: int, padding: int = 0) -> HeldOut:
    """Returns the beginnings of documents, to be scored in nats per word.

    Args:
      rows: int[N, T + 1], padded at the end. The first word of a row is not predicted.
    """
    targets = np.ascontiguousarray(rows[:, 1:])
    counted = targets != padding
    return HeldOut(rows[:, :-1], targets, counted, float(counted.sum()), vocab_size)


def cut_documents(ids: np.ndarray, length: int, end_id: int) -> np.ndarray:
    """Returns the first T + 1 tokens of every document, int32[N, T + 1], padded with 0.

    Args:
      ids: the documents, each followed by `end_id`; an `end_id` at the beginning is ignored.
      length: T.
    """
    ids = np.asarray(ids, np.int32)
    ends = np.flatnonzero(ids == end_id)
    starts = np.concatenate([[0], ends[:-1] + 1])
    spans = [(start, end) for start, end in zip(starts, ends, strict=True) if end > start]
    rows = np.zeros((len(spans), length + 1), np.int32)
    for row, (start, end) in zip(rows, spans, strict=True):
        part = ids[start : min(end, start + length + 1)]
        row[: len(part)] = part
    return rows
