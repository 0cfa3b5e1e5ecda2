"""How well a model predicts text it has not learned from."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.corpus.batches import eval_windows
from minigpt.corpus.token_store import Part
from minigpt.models import GPT

# Logits of one batch, float32[B, T, V], take at most so many bytes.
LOGITS_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on a text.

    Attributes:
      loss: nats per token, every token counted once, end tokens included.
      perplexity: exp(loss).
      bits_per_byte: all nats in bits, over the bytes of the original text; the score to compare across
        tokenizers. None where the tokenizer lost something of the text.
      tokens: number of tokens predicted.
      bytes: UTF-8 bytes of the text, without end tokens.
    """

    loss: float
    perplexity: float
    bits_per_byte: float | None
    tokens: int
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def score(loss: float, part: Part, lossless: bool) -> Evaluation:
    """What a loss in nats per token of `part` means.

    Args:
      loss: nats per token.
      part: the text it was measured on.
      lossless: whether the tokenizer gives text back as it was, unknown tokens aside.
    """
    exact = lossless and part.unknown_tokens == 0 and part.bytes > 0
    return Evaluation(
        loss=loss,
        perplexity=math.exp(min(loss, 700)),
        bits_per_byte=loss * part.tokens / math.log(2) / part.bytes if exact else None,
        tokens=part.tokens,
        bytes=part.bytes,
    )


class Evaluator:
    """Measures a model's loss; compiled once, it follows the weights as they change.

    Args:
      model: the model.
      batch_size: most sequences at once; fewer where the logits would take too much memory.
    """

    def __init__(self, model: GPT, batch_size: int = 32) -> None:
        self.model = model
        most = LOGITS_BYTES // (4 * model.max_len * model.vocab_size)
        self.batch_size = max(1, min(batch_size, most))
        self._sum_losses = tf.function(self._sum_losses_of, jit_compile=model.jit_compile)

    def loss(self, ids: np.ndarray) -> float:
        """Mean loss in nats over the targets ids[1:], in windows of max_len side by side.

        Args:
          ids: int[n + 1].
        """
        total, count = 0.0, 0.0
        for inputs, targets, weights in eval_windows(ids, self.model.max_len, self.batch_size):
            total += float(self._sum_losses(inputs, targets, weights))
            count += float(weights.sum())
        return total / count

    def _sum_losses_of(self, inputs: Any, targets: Any, weights: Any) -> Any:
        logits = self.model(inputs, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        return tf.reduce_sum(losses * weights)


def baselines(part: Part, token_counts: np.ndarray) -> tuple[float, float]:
    """Losses, in nats per token, of two guesses that need no model.

    Args:
      part: the held-out text.
      token_counts: int64[V], how often each token is a target in the training text.
    Returns:
      The loss of giving every token the same probability, and of giving each token its frequency in
      the training text, one added to every count.
    """
    vocab_size = len(token_counts)
    log_frequency = np.log((token_counts + 1) / (token_counts.sum() + vocab_size))
    held_out = np.bincount(np.asarray(part.ids[1:], np.int64), minlength=vocab_size)
    return math.log(vocab_size), float(-(held_out @ log_frequency) / part.tokens)
