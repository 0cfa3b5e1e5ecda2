"""Scores of a model on held-out text, computed from its loss. Imports no TensorFlow."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.token_ids import Part

# Ids that are counted at once: the held-out part of a large text would not fit into memory.
_CHUNK = 1 << 22


@dataclass(frozen=True)
class _Scores:
    loss: float
    perplexity: float
    bits_per_byte: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Evaluation(_Scores):
    """Scores of a model on a text.

    Attributes:
      loss: nats per token; every token counts once, end tokens included.
      perplexity: exp(loss).
      bits_per_byte: the total loss in bits, divided by the bytes of the original text; the score to
        compare across tokenizers. None if the tokenizer lost part of the text.
      tokens: number of tokens predicted.
      bytes: UTF-8 bytes of the text, without end tokens.
    """

    tokens: int
    bytes: int


@dataclass(frozen=True)
class PairEvaluation(_Scores):
    """Scores of a model on pairs of sentences.

    Attributes:
      loss, perplexity, bits_per_byte: as in `Evaluation`, of the target tokens and of the bytes of the
        targets.
      bleu: BLEU of the translations against one reference each, 0 to 100; see `PairEvaluator.bleu`. None if
        the tokenizer lost part of the references.
      beams: beam width of the translations; 1 is greedy.
      length_penalty: length penalty of the beam search.
      pairs: number of pairs.
      tokens: number of target tokens predicted.
      bytes: UTF-8 bytes of the targets, without end tokens.
    """

    bleu: float | None
    beams: int
    length_penalty: float
    pairs: int
    tokens: int
    bytes: int


def score(loss: float, part: Part, lossless: bool) -> Evaluation:
    """Returns all scores that follow from a loss in nats per token.

    Args:
      part: the text it was measured on.
      lossless: whether decoding returns the original text, apart from unknown tokens.
    """
    exact = lossless and part.unknown_tokens == 0 and part.bytes > 0
    bits = bits_per_byte(loss, part.tokens, part.bytes) if exact else None
    return Evaluation(loss, perplexity(loss), bits, part.tokens, part.bytes)


def perplexity(loss: float) -> float:
    """Returns exp(loss), limited to what a float can hold."""
    return math.exp(min(loss, 700))


def bits_per_byte(loss: float, n_tokens: int, n_bytes: int) -> float:
    """Converts nats per token to bits per byte of the original text."""
    return loss * n_tokens / math.log(2) / n_bytes


def baselines(part: Part, token_counts: np.ndarray) -> tuple[float, float]:
    """Returns the losses of two predictions that need no model, in nats per token.

    Args:
      part: the held-out text.
      token_counts: int64[V], how often each token is a target in the training text.
    Returns:
      the loss of the uniform distribution, and that of the token frequencies of the training text with
      one added to every count (unigram).
    """
    held_out = np.zeros(len(token_counts), np.int64)
    for start in range(1, len(part.ids), _CHUNK):
        ids = np.asarray(part.ids[start : start + _CHUNK], np.int64)
        held_out += np.bincount(ids, minlength=len(token_counts))
    return count_baselines(held_out, token_counts)


def pair_baselines(train: Pairs, val: Pairs, vocab_size: int) -> tuple[float, float]:
    """Returns `baselines` of pairs, in nats per target token of the pairs that are not too long."""
    counts = []
    for pairs in (val, train):
        targets = [pairs.target(index) for index in np.flatnonzero(pairs.fits)]
        counts.append(np.bincount(np.concatenate(targets), minlength=vocab_size))
    return count_baselines(*counts)


def count_baselines(held_out: np.ndarray, train: np.ndarray) -> tuple[float, float]:
    """Returns `baselines` from how often each token is a target, int64[V] each."""
    log_frequency = np.log((train + 1) / (train.sum() + len(train)))
    return math.log(len(train)), float(-(held_out @ log_frequency) / held_out.sum())
