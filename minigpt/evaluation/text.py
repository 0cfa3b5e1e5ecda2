"""The loss of a language model on held-out text."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.corpus.batches import eval_windows
from minigpt.models import GPT, EncoderDecoder

# Called with the inputs, targets, weights and losses of each batch.
Record = Callable[[Any, Any, Any, np.ndarray], None]

# Limit for the logits of one batch, float32[B, T, V].
MAX_LOGITS_BYTES = 64 * 2**20


def mean_loss(
    model: GPT | EncoderDecoder,
) -> Callable[[Iterable[tuple[Any, Any, Any]], Record | None], float]:
    """Returns a function that computes the mean loss in nats of a model over batches.

    It takes (inputs, targets, weights); every target counts by its weight. Its second argument is called
    with each batch and the losses of its targets, float32[B, T]. Compiled once; follows the model's weights
    as they change.
    """

    def sum_losses(inputs: Any, targets: Any, weights: Any) -> tuple[Any, Any]:
        logits = model(inputs, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        return tf.reduce_sum(losses * weights), losses

    compiled = tf.function(sum_losses, jit_compile=model.jit_compile)

    def mean(batches: Iterable[tuple[Any, Any, Any]], record: Record | None = None) -> float:
        total, count = 0.0, 0.0
        for inputs, targets, weights in batches:
            summed, losses = compiled(inputs, targets, weights)
            total += float(summed)
            count += float(weights.sum())
            if record is not None:
                record(inputs, targets, weights, losses.numpy())
        return total / count

    return mean


class Evaluator:
    """Measures a model's loss. Compiled once; follows the weights as they change.

    Args:
      model: the model.
      batch_size: limit for the number of sequences at once; lowered if the logits would use too much
        memory.
    """

    def __init__(self, model: GPT, batch_size: int = 32) -> None:
        self.model = model
        limit = MAX_LOGITS_BYTES // (4 * model.max_len * model.vocab_size)
        self.batch_size = max(1, min(batch_size, limit))
        self._mean_loss = mean_loss(model)

    def loss(self, ids: np.ndarray, record: Record | None = None) -> float:
        """Returns the mean loss in nats over the targets ids[1:], in adjacent windows of max_len.

        Args:
          ids: int[n + 1].
          record: called with each batch and the losses of its targets.
        """
        return self._mean_loss(eval_windows(ids, self.model.max_len, self.batch_size), record)
