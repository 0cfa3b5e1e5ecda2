"""The training state of a model as arrays by name: weights, seeds, metrics and optimizer."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np


def arrays_of(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns the training state: weights (LoRA factors included), seeds, metrics, optimizer.

    The model is compiled, with built optimizer and metrics. On a CPU the arrays are views of the variables:
    use them before the next step.
    """
    return {
        f"{group}/{number:05}": variable.value.numpy()
        for group, variables in _variable_groups(model).items()
        for number, variable in enumerate(variables)
    }


def restore(model: keras.Model, arrays: Mapping[str, np.ndarray]) -> None:
    """Restores the training state of a model that is compiled like that of the arrays.

    Raises:
      ValueError: the arrays belong to another model or optimizer.
    """
    for group, variables in _variable_groups(model).items():
        assign(variables, [arrays[name] for name in sorted(arrays) if name.startswith(f"{group}/")])


def assign(variables: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    """Assigns values to variables, to all or to none.

    Raises:
      ValueError: the number of values, a shape or a dtype differs.
    """
    for variable, value in zip(variables, values, strict=True):
        if tuple(variable.shape) != value.shape or variable.dtype != value.dtype.name:
            raise ValueError(
                f"{variable.path} should be {variable.dtype}{tuple(variable.shape)}. "
                f"Received: {value.dtype}{value.shape}"
            )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def copy_weights(source: keras.Model, model: keras.Model) -> None:
    """Copies all weights. The tokens that only `model` has, the last ones, get vectors like the others'.

    The logits of other vectors could be larger than all others.
    """
    draw = np.random.default_rng(0)
    for weight, copied in zip(model.weights, source.weights, strict=True):
        value = keras.ops.convert_to_numpy(copied)
        if (shape := tuple(weight.shape)) != value.shape:
            (axis,) = (i for i, size in enumerate(shape) if size != value.shape[i])
            mean, deviation = (f(axis=axis, keepdims=True) for f in (value.mean, value.std))
            size = [n - value.shape[i] if i == axis else n for i, n in enumerate(shape)]
            new = mean + deviation / 2 * draw.standard_normal(size, np.float32)
            value = np.concatenate([value, new.astype(value.dtype)], axis)
        weight.assign(value)


def _variable_groups(model: keras.Model) -> dict[str, list[Any]]:
    # An array is named "GROUP/NUMBER". Keras' own names differ from process to process.
    weights = {id(variable) for variable in model.weights}
    return {
        "weights": model.weights,
        "seeds": [variable for variable in model.variables if id(variable) not in weights],
        "metrics": model.metrics_variables,
        "optimizer": model.optimizer.variables,
    }
