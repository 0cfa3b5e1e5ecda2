"""Muon's matrices divided among replicas."""

from itertools import pairwise
from typing import Any

import keras
import numpy as np
import pytest

from minigpt.distribution.step import DividedMuon
from minigpt.training.optimizers import Muon

SHAPES = [(16, 48), (48, 16), (16, 48), (16, 16), (16,), (16, 48), (16,)]


class OneOf:
    """A replica that receives nothing from the others."""

    def __init__(self, number: int, count: int) -> None:
        self.number, self.count = number, count

    def current(self) -> int:
        return self.number

    def sum(self, tensors: list[Any]) -> list[Any]:
        return tensors


def changes(optimizer: keras.optimizers.Optimizer) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Of the weights, by one update; and the optimizer's variables after it."""
    draw = np.random.default_rng(0)
    start = [draw.normal(size=shape).astype("float32") for shape in SHAPES]
    gradients = [draw.normal(size=shape).astype("float32") for shape in SHAPES]
    variables = [keras.Variable(value) for value in start]
    variables[0].muon_parts = (16, 32)
    optimizer.apply(gradients, variables)
    state = [variable.numpy() for variable in optimizer.variables]
    return [v.numpy() - value for v, value in zip(variables, start, strict=True)], state


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_matrix_is_updated_by_one_replica_as_by_one_device(count):
    settings = {"learning_rate": 0.02, "weight_decay": 0.0, "global_clipnorm": 1.0}
    whole, state = changes(Muon(**settings))
    divided = [changes(DividedMuon(OneOf(n, count), **settings)) for n in range(count)]
    for values in zip(state, *(own_state for _, own_state in divided), strict=True):
        for one, other in pairwise(values):
            np.testing.assert_array_equal(one, other)
    shares = []
    for change, *own in zip(whole, *(own for own, _ in divided), strict=True):
        owners = [n for n in range(count) if np.any(own[n])]
        assert len(owners) == (1 if change.ndim == 2 else count)
        for owner in owners:
            np.testing.assert_allclose(own[owner], change, atol=1e-6)
        shares += owners if change.ndim == 2 else []
    assert len(set(shares)) == min(count, 5)
