"""Trains a PyTorch model for the quality cases: AdamW, clipping, random windows of a text."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.held_out import Nats
from benchmarks.quality import TimedEvaluation

# int[B, T] → logits float[B, T, V].
Forward = Callable[[torch.Tensor], torch.Tensor]


def parameter_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Returns matrices, which have weight decay, and vectors, which have none."""
    parameters = list(model.parameters())
    return [
        {"params": [w for w in parameters if w.ndim >= 2], "weight_decay": 0.1},
        {"params": [w for w in parameters if w.ndim < 2], "weight_decay": 0.0},
    ]


def random_windows(ids: np.ndarray, length: int, batch_size: int) -> Iterator[torch.Tensor]:
    """Yields batches of windows at random places, int64[B, T + 1], as nanoGPT draws them."""
    draw = torch.Generator().manual_seed(1337)
    places = torch.arange(length + 1)
    data = torch.from_numpy(ids.astype(np.int64))
    while True:
        yield data[torch.randint(len(data) - length, (batch_size, 1), generator=draw) + places]


def nats_of(forward: Forward) -> Nats:
    """Returns the function that computes the losses of a batch."""

    def nats(inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            logits = forward(torch.from_numpy(inputs.astype(np.int64))).transpose(1, 2)
            wanted = torch.from_numpy(targets.astype(np.int64))
            return functional.cross_entropy(logits, wanted, reduction="none").numpy()

    return nats


def fit(
    model: nn.Module,
    forward: Forward,
    groups: list[dict[str, Any]],
    batches: Iterator[torch.Tensor],
    evaluation: TimedEvaluation,
    rate: Callable[[int], float],
    fused: bool = False,
) -> None:
    """Trains until the measurement is over.

    Args:
      model: its parameters are clipped together.
      forward: computes the logits.
      groups: the parameters, as AdamW takes them.
      batches: inputs and targets, int64[B, T + 1].
      evaluation: evaluates the model, and says when to end.
      rate: number of updates that are done → learning rate.
      fused: whether AdamW uses its fused kernel.
    """
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99), fused=fused)
    step = 0
    while not evaluation.is_over:
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        rows = next(batches)
        logits = forward(rows[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        evaluation.evaluate_if_due(step)
