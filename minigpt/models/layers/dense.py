"""Dense layers, and the initial values of their matrices: each matrix is drawn separately.

A Keras initializer gives the same values at every call. Two matrices that shared one would be correlated.
"""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("minigpt")
class Dense(keras.layers.Dense):
    """The Keras layer, with product and bias computed separately if T can be 1, as in decoding.

    XLA would fuse a matrix-vector product and the addition of a bias into one loop, which uses one core.
    """

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """float[B, T, D] → float[B, T, N]."""
        if training or inputs.shape[1] not in (1, None):
            return super().call(inputs, training=training)
        outputs = prevent_fusion(ops.matmul(inputs, self.kernel))
        if self.bias is not None:
            outputs = ops.add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)


def prevent_fusion(product: Any) -> Any:
    """Returns the same numbers. XLA does not fuse a product that has two consumers."""
    return ops.where(ops.isnan(product), ops.cast(float("nan"), product.dtype), product)


@keras.saving.register_keras_serializable("minigpt")
class PackedGlorotUniform(keras.initializers.GlorotUniform):
    """Glorot's uniform distribution, with one range for all matrices that are computed side by side.

    It is that of one matrix with all their columns, as in `torch.nn.MultiheadAttention`. Initial queries
    and keys are smaller than in `keras.layers.MultiHeadAttention`. Other matrices have the values of
    `GlorotUniform`.
    """


def own_initializer(initializer: Any) -> Any:
    """Returns an initializer of the same distribution, with a new seed unless a seed was given."""
    draws_a_seed = hasattr(initializer, "seed") and initializer.get_config().get("seed") is None
    return initializer.clone() if draws_a_seed else initializer


def side_by_side(initializer: Any, widths: tuple[int, ...]) -> Any:
    """Returns an initializer of matrices side by side, each with the initial values of a separate matrix.

    As in `keras.layers.MultiHeadAttention`, the range of the initial values of queries, keys and values
    then depends on the width of each, not on their sum.

    Args:
      initializer: of each matrix, or a `PackedGlorotUniform`. If it has an integer as seed, the seeds are
        that and the following integers: otherwise queries and keys would not be independent.
      widths: number of columns of each matrix.
    """
    seed = getattr(initializer, "seed", None)
    if seed is None or isinstance(initializer, PackedGlorotUniform):
        return own_initializer(initializer)

    def initialize(shape: Any, dtype: Any = None) -> Any:
        parts = []
        for number, width in enumerate(widths):
            part = own_initializer(initializer)
            if part is initializer and isinstance(seed, int):
                part = initializer.from_config({**initializer.get_config(), "seed": seed + number})
            parts.append(part((*shape[:-1], width), dtype))
        return ops.concatenate(parts, axis=-1)

    return initialize
