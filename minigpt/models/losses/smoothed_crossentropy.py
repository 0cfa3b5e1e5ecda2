"""Cross-entropy with label smoothing."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("minigpt")
class SmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy with a share of each target's probability spread over all V tokens.

    Label smoothing: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.

    Args:
      label_smoothing: the share, 0 ≤ share < 1. With 0 the loss equals
        `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`.
    """

    def __init__(
        self,
        label_smoothing: float,
        reduction: str = "sum_over_batch_size",
        name: str = "smoothed_crossentropy",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.label_smoothing = label_smoothing

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """int[..., T] targets and float[..., T, V] logits → float[..., T], nats."""
        log_probabilities = ops.log_softmax(y_pred)
        targets = ops.cast(y_true, "int32")[..., None]
        of_targets = ops.take_along_axis(log_probabilities, targets, axis=-1)[..., 0]
        mean = ops.mean(log_probabilities, axis=-1)
        return -(1 - self.label_smoothing) * of_targets - self.label_smoothing * mean

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}
