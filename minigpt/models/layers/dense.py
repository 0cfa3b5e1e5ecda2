"""A dense layer that uses all cores, even for a single token."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("minigpt")
class Dense(keras.layers.Dense):
    """The Keras layer, with product and bias computed separately if T = 1, as in decoding.

    XLA fuses a matrix-vector product and the addition of a bias into one loop, which uses one core.
    """

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """float[B, T, D] → float[B, T, N]."""
        if inputs.shape[1] != 1:
            return super().call(inputs, training=training)
        outputs = prevent_fusion(ops.matmul(inputs, self.kernel))
        if self.bias is not None:
            outputs = ops.add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: Any = None
    ) -> None:
        # Keras refuses subclasses, in case they compute something else.
        super().quantize(mode, type_check=False, config=config)


def prevent_fusion(product: Any) -> Any:
    """Returns the same numbers. XLA does not fuse a product that has two consumers."""
    return ops.where(ops.isnan(product), ops.cast(float("nan"), product.dtype), product)
