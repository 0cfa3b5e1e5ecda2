"""Activation functions of the feed-forward network, by name.

To add one, see docs/adding-to-the-model.md.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("minigpt")
def gelu_tanh(x: Any) -> Any:
    """Computes GELU in its tanh form (Hendrycks & Gimpel 2016), as in GPT-2.

    0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))).
    """
    return keras.activations.gelu(x, approximate=True)


@keras.saving.register_keras_serializable("minigpt")
def relu_squared(x: Any) -> Any:
    """Computes max(0, x)² (So et al. 2021, Primer)."""
    return ops.square(ops.relu(x))


def gated(activation: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the function float[..., 2 F] → float[..., F]: f(gate) ⊙ values (Shazeer 2020, SwiGLU)."""

    def function(x: Any) -> Any:
        gate, values = ops.split(x, 2, axis=-1)
        return activation(gate) * values

    return function


# The names are those of `model.activation` in minigpt/config/model.py.
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": keras.activations.relu,
    "gelu": keras.activations.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": keras.activations.silu,
    "relu_squared": relu_squared,
}
