"""How well a model predicts text it has not learned from."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.corpus.batches import eval_windows
from minigpt.corpus.token_store import Part, encode_texts, open_corpus, read_texts
from minigpt.errors import UserError
from minigpt.models import GPT
from minigpt.run import Run

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

    def loss(self, ids: np.ndarray, most_batches: int | None = None) -> float:
        """Mean loss in nats over the targets ids[1:], in windows of max_len side by side.

        Args:
          ids: int[n + 1].
          most_batches: stop after so many batches; None for all.
        """
        total, count = 0.0, 0.0
        batches = eval_windows(ids, self.model.max_len, self.batch_size)
        for number, (inputs, targets, weights) in enumerate(batches):
            if number == most_batches:
                break
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


def evaluate_run(
    run: Run,
    paths: Sequence[str] | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> Evaluation:
    """Scores a run's best model on files, or on the text that was held out from its training.

    Args:
      run: the run.
      paths: files, folders, globs; None for the held-out text.
      report: gets a line about everything that takes time.
    Raises:
      UserError: if the text cannot be read, or is not the one that the run held text out from.
    """
    config = run.config
    model, tokenizer = run.load_model(), run.load_tokenizer()
    if paths:
        part = encode_texts(read_texts(paths, config.data.document_separator), tokenizer)
    elif not run.corpus_file.is_file():
        raise UserError(
            f"RUN {run.path}: was imported and has no held-out text; name a text with --text"
        )
    else:
        # A tokenizer that was not learned from the text is the run's own: nothing is fetched again.
        learned = config.training.init_from is None and config.tokenizer.kind != "gpt2"
        corpus = open_corpus(config.data, config.tokenizer, report, None if learned else tokenizer)
        if corpus.fingerprint != run.corpus["fingerprint"]:
            raise UserError(
                f"RUN {run.path}: its text (data.source = {config.data.source!r}) has changed since "
                "the training, and with it what was held out; name a text with --text"
            )
        part = corpus.val
    loss = Evaluator(model, config.training.batch_size).loss(part.ids)
    return score(loss, part, tokenizer.lossless)
