"""How well a model translates sentences it has not learned from."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.corpus.pair_batches import Buckets, Pairs
from minigpt.errors import UserError
from minigpt.generation import Translator, translate_ids
from minigpt.models import EncoderDecoder
from minigpt.tokenizers import Tokenizer

BUCKETS = 4
# What is said of pairs that are too long: the beginnings of the first ones, so many characters.
PAIRS_NAMED, BEGINNING = 3, 30


@dataclass(frozen=True)
class PairEvaluation:
    """Scores of a model on pairs of sentences.

    Attributes:
      loss: nats per token of the targets, every token counted once, end tokens included.
      perplexity: exp(loss).
      bits_per_byte: all nats in bits, over the bytes of the targets; the score to compare across
        tokenizers. None where the tokenizer lost something of them.
      bleu: of the translations against one reference each, 0 to 100; see `bleu`. None where the
        tokenizer lost something of the references: those are not what was held out.
      beams: translations followed at once; 1 is greedy.
      length_penalty: of the beams.
      pairs: number of pairs.
      tokens: number of target tokens predicted.
      bytes: UTF-8 bytes of the targets, without end tokens.
    """

    loss: float
    perplexity: float
    bits_per_byte: float | None
    bleu: float | None
    beams: int
    length_penalty: float
    pairs: int
    tokens: int
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def bleu(translations: list[str], references: list[str]) -> float:
    """Corpus BLEU by sacrebleu's defaults (Post 2018): cased, tokenized by "13a", one reference each.

    Returns:
      0 to 100.
    """
    # Here: only who translates waits for it.
    import sacrebleu

    # Not detokenized is what a warning of sacrebleu's takes sentences for that end in " .".
    return sacrebleu.corpus_bleu(translations, [references], force=True).score


class PairEvaluator:
    """Measures a model's loss and BLEU; compiled once, it follows the weights as they change.

    Args:
      model: the model.
      tokenizer: the one it is trained with.
      pairs: what to measure on; pairs that are too long are left out.
      batch_size: pairs at once, on average.
    """

    def __init__(
        self, model: EncoderDecoder, tokenizer: Tokenizer, pairs: Pairs, batch_size: int
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.pairs = pairs
        self.numbers = np.flatnonzero(pairs.fits)
        self.buckets = Buckets(pairs, min(batch_size, max(1, len(self.numbers))), BUCKETS)
        self.translator = Translator(model, tokenizer.end_id, tokenizer.undrawable_ids)
        self._sum_losses = tf.function(self._sum_losses_of, jit_compile=model.jit_compile)

    def loss(self) -> float:
        """Mean loss in nats over all target tokens."""
        total, count = 0.0, 0.0
        for inputs, targets, weights in self.buckets.once():
            total += float(self._sum_losses(inputs, targets, weights))
            count += float(weights.sum())
        return total / count

    @cached_property
    def tokens(self) -> int:
        """Target tokens, end tokens included."""
        return int(self.pairs.target_lengths[self.numbers].sum())

    @cached_property
    def bytes(self) -> int:
        """UTF-8 bytes of the targets."""
        return sum(len(text.encode()) for text in self.references(self.numbers))

    @cached_property
    def _exact(self) -> bool:
        """Whether the tokenizer gives the targets back as they were."""
        unknown = self.tokenizer.unknown_id
        known = unknown is None or all(
            unknown not in self.pairs.target(number) for number in self.numbers
        )
        return self.tokenizer.lossless and known

    def bits_per_byte(self, loss: float) -> float | None:
        """What a loss in nats per token is in bits per byte of the targets, where that means something."""
        return loss * self.tokens / math.log(2) / self.bytes if self._exact else None

    def translations(
        self, numbers: np.ndarray, beams: int = 1, length_penalty: float = 1.0
    ) -> list[str]:
        """What the model makes of the sources of some pairs."""
        found = translate_ids(
            self.translator,
            [self.pairs.source(number) for number in numbers],
            self.model.max_len,
            beams,
            length_penalty,
        )
        return [self.tokenizer.decode(ids) for ids in found]

    def references(self, numbers: np.ndarray) -> list[str]:
        """The targets of some pairs."""
        return [self.tokenizer.decode(self.pairs.target(number)) for number in numbers]

    def sources(self, numbers: np.ndarray) -> list[str]:
        return [self.tokenizer.decode(self.pairs.source(number)) for number in numbers]

    def bleu(
        self, beams: int = 1, length_penalty: float = 1.0, most_pairs: int | None = None
    ) -> float | None:
        """BLEU of the translations of all pairs, or of the first ones; see `PairEvaluation`."""
        if not self._exact:
            return None
        numbers = self.numbers[:most_pairs]
        return bleu(self.translations(numbers, beams, length_penalty), self.references(numbers))

    def _sum_losses_of(self, inputs: Any, targets: Any, weights: Any) -> Any:
        logits = self.model(inputs, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        return tf.reduce_sum(losses * weights)


def evaluate_pairs(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    pairs: Pairs,
    batch_size: int,
    beams: int,
    length_penalty: float,
    report: Callable[[str], None] = lambda line: None,
) -> PairEvaluation:
    """Loss and BLEU on pairs of sentences.

    Raises:
      UserError: if no pair is short enough for the model.
    """
    if line := too_long(pairs, tokenizer):
        report(line)
    if not pairs.fits.any():
        raise UserError(f"{len(pairs):,} pairs: none is short enough for the model")
    evaluator = PairEvaluator(model, tokenizer, pairs, batch_size)
    loss = evaluator.loss()
    return PairEvaluation(
        loss=loss,
        perplexity=math.exp(min(loss, 700)),
        bits_per_byte=evaluator.bits_per_byte(loss),
        bleu=evaluator.bleu(beams, length_penalty),
        beams=beams,
        length_penalty=length_penalty,
        pairs=len(evaluator.numbers),
        tokens=evaluator.tokens,
        bytes=evaluator.bytes,
    )


def too_long(pairs: Pairs, tokenizer: Tokenizer) -> str:
    """How many pairs are longer than the model takes, and which; "" for none."""
    numbers = np.flatnonzero(~pairs.fits)
    if not len(numbers):
        return ""
    named = ", ".join(
        f"{tokenizer.decode(pairs.source(number))[:BEGINNING]!r}… "
        f"({pairs.source_lengths[number]} and {pairs.target_lengths[number]} tokens)"
        for number in numbers[:PAIRS_NAMED]
    )
    more = f" and {len(numbers) - PAIRS_NAMED:,} more" if len(numbers) > PAIRS_NAMED else ""
    return (
        f"{len(numbers):,} of {len(pairs):,} pairs are longer than model.max_len = {pairs.max_len} "
        f"tokens, end tokens included, and left out: {named}{more}"
    )
