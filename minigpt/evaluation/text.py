"""The loss of a language model on held-out text, and on the answers of dialogues."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

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


class SharedBatches(Protocol):
    """The copies of a model on several devices, of one process or of several, that share each batch.

    Attributes:
      count: number of replicas, of all processes.
      workers: number of processes.
      is_first: whether this process is the first worker, which alone writes files.
      jit_compile: whether the parts of a training step are compiled with XLA.
    """

    count: int
    workers: int
    is_first: bool
    jit_compile: bool

    def scope(self) -> AbstractContextManager[Any]:
        """Returns a context in which variables are created on every replica."""

    def map(
        self, function: Any, batches: Iterable[Any], size: Callable[[Any], int]
    ) -> Iterator[np.ndarray]:
        """Yields what a function returns for each batch; the replicas share the batches.

        Args:
          function: called with a batch on a replica, returns float32[N].
          batches: arrays in any structure, the same on all workers.
          size: returns N from a batch.
        """


def mean_loss(
    model: GPT | EncoderDecoder, replicas: SharedBatches | None = None
) -> Callable[[Iterable[tuple[Any, Any, Any]], Record | None], float]:
    """Returns a function that computes the mean loss in nats of a model over batches.

    It takes (inputs, targets, weights); every target counts by its weight. Its second argument is called
    with each batch and the losses of its targets, float32[B, T]. Compiled once; follows the model's weights
    as they change. The result is the same number for any number of replicas.

    Args:
      model: the model.
      replicas: those of the model that share the batches; None for the default device.
    """

    @tf.autograph.experimental.do_not_convert
    def sum_losses(batch: tuple[Any, Any, Any]) -> Any:
        """Returns the sum, and after it the loss of each target, float32[1 + B·T]."""
        inputs, targets, weights = batch
        logits = model(inputs, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        return tf.concat([tf.reduce_sum(losses * weights)[None], tf.reshape(losses, [-1])], 0)

    compiled = tf.function(sum_losses, jit_compile=model.jit_compile)

    def results(batches: Iterable[tuple[Any, Any, Any]]) -> Iterator[np.ndarray]:
        if replicas is None:
            return (compiled(batch).numpy() for batch in batches)
        return replicas.map(compiled, batches, lambda batch: 1 + batch[1].size)

    def mean(batches: Iterable[tuple[Any, Any, Any]], record: Record | None = None) -> float:
        total, count = 0.0, 0.0
        batches, computed = itertools.tee(batches)
        for (inputs, targets, weights), result in zip(batches, results(computed), strict=True):
            total += float(result[0])
            count += float(weights.sum())
            if record is not None:
                record(inputs, targets, weights, result[1:].reshape(targets.shape))
        return total / count

    return mean


class Evaluator:
    """Measures a model's loss. Compiled once; follows the weights as they change.

    Args:
      model: the model.
      batch_size: limit for the number of sequences at once; lowered if the logits would use too much
        memory.
      replicas: those of the model that share the batches; None for the default device.

    Attributes:
      loss_of: see `mean_loss`.
    """

    def __init__(
        self, model: GPT, batch_size: int = 32, replicas: SharedBatches | None = None
    ) -> None:
        self.model = model
        limit = MAX_LOGITS_BYTES // (4 * model.max_len * model.vocab_size)
        self.batch_size = max(1, min(batch_size, limit))
        self.loss_of = mean_loss(model, replicas)

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
            raise UserError(
                ArgumentProblem("stride", stride, f"should be 1 to max_len = {max_len}")
            )
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
