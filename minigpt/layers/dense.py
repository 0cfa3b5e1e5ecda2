"""A dense layer that reads a large matrix with all cores, for one token too."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("minigpt")
class Dense(keras.layers.Dense):
    """Keras', with the product apart from the sum where a row has one token: while decoding.

    Of the product of a vector and a sum behind it XLA makes one loop, which runs on one core.
    """

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """float[B, T, D] → float[B, T, N]."""
        if inputs.shape[1] != 1:
            return super().call(inputs, training=training)
        outputs = prevent_fusion(ops.matmul(inputs, self.kernel))
        if self.bias is not None:
            outputs = ops.add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)


def prevent_fusion(product: Any) -> Any:
    """The same numbers. A product that two operations look at is computed by itself."""
    return ops.where(ops.isnan(product), ops.cast(float("nan"), product.dtype), product)
