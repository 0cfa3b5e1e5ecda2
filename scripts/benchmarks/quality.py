"""Time to quality: seconds of training until held-out text is predicted as well as by a peer.

Seconds count from the start of the process: imports, compilation and, for Shakespeare, tokenizing are
included. Evaluations are not. The split is minigpt's, and one function computes the score of both sides.
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.measuring import WORDS, Finished, Outcome, seconds_since_start

# (inputs, targets), int[B, T] each → the loss of each target in nats, float[B, T].
Nats = Callable[[np.ndarray, np.ndarray], np.ndarray]
# The time between two evaluations, as a share of the training so far. The time at which a score was
# reached is interpolated, so its error is well below this share.
_LATER = 0.08
_ROWS = 64
# The held-out reviews that are scored: enough for an error of 0.01 nats.
_REVIEWS = 800
CONFIGURATIONS = {"shakespeare": "shakespeare_character", "words": "imdb"}
_evaluating = 0.0


def seconds_of_training() -> float:
    """Returns the seconds since the start of the process, without evaluations."""
    return seconds_since_start() - _evaluating


def score(nats: Nats, inputs: np.ndarray, targets: np.ndarray, counted: np.ndarray) -> float:
    """Returns the total loss of the counted targets in nats.

    All batches have one shape, because another one would be compiled again.
    """
    total = 0.0
    for first in range(0, len(inputs), _ROWS):
        rows = np.minimum(np.arange(first, first + _ROWS), len(inputs) - 1)
        valid = min(_ROWS, len(inputs) - first)
        losses = np.asarray(nats(inputs[rows], targets[rows]), np.float64)[:valid]
        total += float(losses[counted[rows[:valid]]].sum())
    return total


def held_out_windows(ids: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns inputs, targets and what counts, [N, T], in adjacent windows; the last one is padded."""
    count = -(-(len(ids) - 1) // length)
    padded = np.zeros((2, count * length), np.int32)
    padded[:, : len(ids) - 1] = ids[:-1], ids[1:]
    counted = np.arange(count * length) < len(ids) - 1
    inputs, targets = padded.reshape(2, count, length)
    return inputs, targets, counted.reshape(count, length)


def keras_score(model: Any, rows: np.ndarray, divided_by: float | None = None) -> float:
    """Returns the score of a Keras model on rows of int[N, T + 1]; the first output are the logits.

    Args:
      divided_by: what the total loss is divided by; the number of targets other than padding if None.
    """
    targets = np.ascontiguousarray(rows[:, 1:])
    counted = targets != 0
    total = score(_nats_of(model), rows[:, :-1], targets, counted)
    return total / (divided_by or float(counted.sum()))


def _nats_of(model: Any) -> Nats:
    import tensorflow as tf

    # Compiling with XLA would take longer than all evaluations.
    @tf.function
    def losses(inputs: Any, targets: Any) -> Any:
        logits = model(inputs, training=False)
        logits = logits[0] if isinstance(logits, list | tuple) else logits
        return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)

    return lambda inputs, targets: losses(tf.constant(inputs), tf.constant(targets)).numpy()


def _with_file(name: str, path: str, overrides: list[str] | None = None) -> Any:
    """Returns a configuration with a local file in place of its download."""
    import minigpt

    with open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    changes = [f"data.url={Path(path).as_uri()}", f"data.sha256={sha256}", *(overrides or [])]
    return minigpt.load_config(name, changes)


def prepare(text: str, path: str) -> Outcome:
    """Splits a text as minigpt does, for both sides."""
    from minigpt.corpus.token_store import open_corpus

    name = "shakespeare_character" if text == "shakespeare" else "imdb_keras_example"
    config = _with_file(name, path)
    corpus = open_corpus(config.data, config.tokenizer)
    for part, ids in (("train", corpus.train.ids), ("val", corpus.val.ids)):
        ids = np.asarray(ids).astype(np.int32)
        if text == "shakespeare":
            # The first and the last id are the end tokens around the text.
            Path(f"{part}.txt").write_bytes(corpus.tokenizer.decode(ids[1:-1]).encode())
        else:
            np.save(f"words-{part}.npy", _beginnings(ids, corpus.tokenizer.end_id, part))
    settings = {
        "data": config.data.model_dump(),
        "tokenizer": config.tokenizer.model_dump(exclude_none=True),
    }
    Path("words.json").write_text(json.dumps(settings))
    return {"value": corpus.train.tokens}


def _beginnings(ids: np.ndarray, end_id: int, part: str) -> np.ndarray:
    """Returns the first T + 1 words of each review, int32[N, T + 1], padded with 0."""
    reviews = [review[review != end_id] for review in np.split(ids, np.flatnonzero(ids == end_id))]
    reviews = [review for review in reviews if len(review)]
    rows = np.zeros((len(reviews), WORDS.length + 1), np.int32)
    for row, review in zip(rows, reviews, strict=True):
        row[: len(review)] = review[: len(row)]
    return rows[:_REVIEWS] if part == "val" else rows


def characters() -> tuple[str, str]:
    """Returns the training and the held-out part of tiny Shakespeare."""
    train, val = (Path(f"{part}.txt").read_bytes().decode() for part in ("train", "val"))
    return train, val


def ours(text: str, path: str, goal: float) -> Outcome:
    """Measures seconds from the start of the process until the score of minigpt falls to the goal."""
    from benchmarks.ours import train

    if text == "shakespeare":
        # Tokenizing is part of the measurement.
        os.environ["MINIGPT_CACHE"] = mkdtemp(dir=".")
    from minigpt.training import clock

    config = _in_one_epoch(text, path)
    points: list[tuple[float, float]] = []
    evaluate: Callable[[], float] | None = None

    def observe(model: Any, step: int) -> None:
        nonlocal evaluate
        global _evaluating
        seconds, began = seconds_of_training(), time.perf_counter()
        if evaluate is None:
            evaluate = _evaluation(text, config, model)
        elif not points or seconds > points[-1][0] * (1 + _LATER):
            points.append((seconds, evaluate()))
        _evaluating += time.perf_counter() - began
        if points and points[-1][1] <= goal:
            raise Finished

    # The clock of `training.max_minutes` stops during evaluations, too.
    stopped = SimpleNamespace(perf_counter=lambda: time.perf_counter() - _evaluating)
    try:
        with patch.object(clock, "time", stopped):
            train(config, observe)
    except RuntimeError:
        seconds, best = points[-1]
        return {"failed": f"not reached: {best:.3f} after {seconds:.0f} s"}
    (before, above), (after, below) = points[-2:]
    return {"value": before + (after - before) * (above - goal) / (above - below)}


def _in_one_epoch(text: str, path: str) -> Any:
    """Returns our configuration. Validation at the end of an epoch would count as training."""
    import minigpt

    if text == "shakespeare":
        config = _with_file(CONFIGURATIONS[text], path)
    else:
        # The peer's words.
        settings = json.loads(Path("words.json").read_text())
        same_words = [
            f"{section}.{key}={json.dumps(value)}"
            for section, values in settings.items()
            for key, value in values.items()
        ]
        limit = "training.max_minutes=1.75"
        config = minigpt.load_config(CONFIGURATIONS[text], [*same_words, limit])
    training = config.training
    changed = {"epochs": 1, "steps_per_epoch": training.epochs * (training.steps_per_epoch or 0)}
    if not training.steps_per_epoch:
        return config
    return config.model_copy(update={"training": training.model_copy(update=changed)})


def _evaluation(text: str, config: Any, model: Any) -> Callable[[], float]:
    """Returns the function that computes the score of the model: bits per byte, or nats per word."""
    if text == "words":
        rows = np.load("words-val.npy")
        return lambda: keras_score(model, rows)
    from minigpt.corpus.token_store import open_corpus

    corpus, wanted = open_corpus(config.data, config.tokenizer), characters()[1]
    ids = np.asarray(corpus.val.ids).astype(np.int32)[1:-1]
    if corpus.tokenizer.decode(ids) != wanted:
        raise ValueError("the held-out text of minigpt differs from that of the peer")
    windows, nats = held_out_windows(ids, config.sequence_length), _nats_of(model)
    return lambda: score(nats, *windows) / (math.log(2) * len(wanted.encode()))
