"""Histories of invented runs, with the curves that a test needs, and of recorded ones."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from minigpt.config import load_config
from minigpt.insight.history import Epoch, History
from minigpt.runs.analysis import Analysis

UNIFORM, UNIGRAM = 5.5, 3.3
# What was measured of the samples of a state, where a test says nothing else.
MEASURED = {
    **{"state": "last", "epoch": None, "step": None, "longest": None, "samples": []},
    **{"tokens": 1280, "words": 250, "share": 0.0, "held_out_share": 0.0},
}


def history(
    train: Callable[[np.ndarray], np.ndarray],
    gap: Callable[[float], float] = lambda share: 0.0,
    *,
    steps: int = 1000,
    epochs: int = 10,
    settings: dict[str, Any] | None = None,
    analysis: dict[str, Any] | None = None,
    **changes: Any,
) -> History:
    """Returns the history of a run on a text of a megabyte with a model of usual size.

    Args:
      train: the training loss after each update, float[n] → float[n].
      gap: how far the validation loss is above it, by the share of the training that is done.
      steps: updates.
      epochs: epochs.
      settings: of `[training]`.
      analysis: keys of analysis.json.
      changes: attributes.
    """
    at = np.arange(1.0, steps + 1)
    losses = np.asarray(train(at), float)
    ends = [round(steps * number / epochs) for number in range(1, epochs + 1)]
    found = [
        Epoch(number, end, float(losses[end - 1]), float(losses[end - 1]) + gap(end / steps), 1.0)
        for number, end in enumerate(ends, 1)
    ]
    return replace(
        History(
            config=load_config({"training": {"epochs": epochs} | (settings or {})}),
            epochs=found,
            steps=at,
            losses=losses,
            learning_rates=np.ones(steps),
            has_failed=False,
            uniform=UNIFORM,
            unigram=UNIGRAM,
            parameters=800_000,
            train_tokens=1_000_000,
            train_bytes=1_000_000,
            analysis=TypeAdapter(Analysis).validate_python(
                {"tokens_per_step": 1024.0, **(analysis or {})}
            ),
        ),
        **changes,
    )


def saturating(floor: float, fast: float = 100.0) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a loss that falls from the uniform baseline to a floor, as exp(-step / fast)."""
    return lambda step: floor + (UNIFORM - floor) * np.exp(-step / fast)


def constant(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda step: np.full_like(step, value)


def power_law(floor: float, exponent: float) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a loss that falls from the uniform baseline as a power of the step."""
    return lambda step: floor + (UNIFORM - floor) * step**-exponent


def recorded(name: str) -> History:
    """Returns the history of a run of tests/fixtures/histories, in 200 lines at most."""
    folder = Path(__file__).resolve().parents[1] / "fixtures" / "histories"
    record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    found = history(
        lambda step: step,
        analysis=record.pop("analysis"),
        settings=record.pop("training"),
    )
    arrays = {key: np.array(record.pop(key)) for key in ("steps", "losses", "learning_rates")}
    epochs = [Epoch(*values) for values in record.pop("epochs")]
    return replace(found, **record, **arrays, epochs=epochs)
