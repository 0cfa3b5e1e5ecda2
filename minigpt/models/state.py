"""All that changes in a model while it is trained, as plain arrays by name."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

# A number of its place is the rest of an array's name: Keras' own names change from process to process.
WEIGHTS, SEEDS, METRICS, OPTIMIZER = "weights", "seeds", "metrics", "optimizer"


def arrays_of(model: keras.Model) -> dict[str, np.ndarray]:
    """Weights (LoRA's factors by themselves), states of random seeds, metrics, optimizer.

    Args:
      model: compiled, its optimizer and metrics built.
    Returns:
      views of the variables, where they are in this machine's memory: to be used before the next step.
    """
    return {
        f"{group}/{number:05}": variable.value.numpy()
        for group, variables in _groups(model).items()
        for number, variable in enumerate(variables)
    }


def restore(model: keras.Model, arrays: Mapping[str, np.ndarray]) -> None:
    """Gives a model what `arrays_of` one that was built and compiled in the same way returned.

    Raises:
      ValueError: the arrays are those of another model or optimizer.
    """
    groups = _groups(model)
    names = {f"{group}/{n:05}" for group, found in groups.items() for n in range(len(found))}
    if names != set(arrays):
        raise ValueError(f"`arrays` should be {len(names)} by their names. Received: {len(arrays)}")
    for group, variables in groups.items():
        assign(variables, _of(group, arrays))


def restore_metrics(model: keras.Model, arrays: Mapping[str, np.ndarray]) -> None:
    """The metrics alone, which are the means over an epoch so far."""
    assign(model.metrics_variables, _of(METRICS, arrays))


def weight_arrays(arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The values of `model.weights`, in their order."""
    return _of(WEIGHTS, arrays)


def assign(variables: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    """Sets variables to values; all of them fit, or none is set.

    Raises:
      ValueError: their number, a shape or a dtype is another.
    """
    for variable, value in zip(variables, values, strict=True):
        if tuple(variable.shape) != value.shape or variable.dtype != value.dtype.name:
            raise ValueError(
                f"{variable.path} should be {variable.dtype}{tuple(variable.shape)}. "
                f"Received: {value.dtype}{value.shape}"
            )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _of(group: str, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    return [arrays[name] for name in sorted(arrays) if name.startswith(f"{group}/")]


def _groups(model: keras.Model) -> dict[str, list[Any]]:
    weights = {id(variable) for variable in model.weights}
    return {
        WEIGHTS: model.weights,
        SEEDS: [variable for variable in model.variables if id(variable) not in weights],
        METRICS: model.metrics_variables,
        OPTIMIZER: model.optimizer.variables,
    }
