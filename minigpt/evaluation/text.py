"""The loss of a language model on held-out text, and on the answers of dialogues."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.corpus.batches import eval_windows
from minigpt.corpus.dialogues import PackedDialogues
from minigpt.errors import ArgumentProblem, UserError
from minigpt.evaluation.scores import Evaluation, bits_per_byte, perplexity
from minigpt.models import GPT, EncoderDecoder
from minigpt.tokenizers.vocabulary import Vocabulary

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

    def sum_losses(inputs: Any, targets: Any, weights: Any) -> Any:
        """Returns the sum, float32[], and the loss of each target, float32[B, T]."""
        logits = model(inputs, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        return tf.reduce_sum(losses * weights), losses

    compiled = tf.function(sum_losses, jit_compile=model.jit_compile, autograph=False)

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
      batch_size: limit for the number of sequences at once; lowered if the logits would use too much
        memory.

    Attributes:
      loss_of: see `mean_loss`.
    """

    def __init__(self, model: GPT, batch_size: int = 32) -> None:
        self.model = model
        limit = MAX_LOGITS_BYTES // (4 * model.max_len * model.vocab_size)
        self.batch_size = max(1, min(batch_size, limit))
        self.loss_of = mean_loss(model)

    def loss(
        self, ids: np.ndarray, record: Record | None = None, stride: int | None = None
    ) -> float:
        """Returns the mean loss in nats over the targets ids[1:], in windows of max_len.

        Args:
          ids: int[n + 1].
          record: called with each batch and the losses of its targets.
          stride: targets between two windows; None for adjacent ones. See `eval_windows`.
        Raises:
          UserError: the stride is below 1 or above max_len.
        """
        max_len = self.model.max_len
        if stride is not None and not 1 <= stride <= max_len:
            problem = f"should be 1 to max_len = {max_len}"
            raise UserError(ArgumentProblem("stride", stride, problem))
        return self.loss_of(eval_windows(ids, max_len, self.batch_size, stride), record)


def evaluate_dialogues(
    evaluator: Evaluator,
    tokenizer: Vocabulary,
    dialogues: PackedDialogues,
    record: Record | None = None,
) -> Evaluation:
    """Returns the scores of a model on the targets with a weight; `record` as in `Evaluator.loss`."""
    loss = evaluator.loss_of(dialogues.once(evaluator.batch_size), record)
    counts = dialogues.target_counts(tokenizer.vocab_size)
    sizes = np.array([len(piece) for piece in tokenizer.pieces])
    tokens, size = int(counts.sum()), int(sizes @ counts)
    is_exact = getattr(tokenizer, "lossless", False) and size > 0
    bits = bits_per_byte(loss, tokens, size) if is_exact else None
    return Evaluation(loss, perplexity(loss), bits, tokens, size)
