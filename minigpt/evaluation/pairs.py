"""The loss and BLEU of a translation model on held-out pairs."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from minigpt.corpus.pair_batches import Buckets, Pairs
from minigpt.errors import UserError
from minigpt.evaluation.scores import PairEvaluation, bits_per_byte, perplexity
from minigpt.evaluation.text import Record, mean_loss
from minigpt.models import EncoderDecoder
from minigpt.notices import LOGGER
from minigpt.tokenizers.base import Tokenizer

MAX_BUCKETS = 4

# (sources, max_new_tokens, beams, length_penalty) → target ids.
Translate = Callable[[Sequence[np.ndarray], int, int, float], list[np.ndarray]]


class PairEvaluator:
    """Measures a model's loss and BLEU. Compiled once; follows the weights as they change.

    Args:
      pairs: the held-out pairs; pairs that are too long are skipped.
      batch_size: average number of pairs at once.
      translate: `Translator.translate_all`.

    Attributes:
      indices: int64[N], the pairs that are evaluated.
    Raises:
      UserError: no pair is short enough for the model.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizer: Tokenizer,
        pairs: Pairs,
        batch_size: int,
        translate: Translate,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.pairs = pairs
        self.indices = np.flatnonzero(pairs.fits)
        if not len(self.indices):
            raise UserError(
                f"all {len(pairs):,} held-out pairs are longer than model.max_len = {pairs.max_len} "
                "tokens, end tokens included"
            )
        self.buckets = Buckets(pairs, min(batch_size, len(self.indices)), MAX_BUCKETS)
        self.translate = translate
        self._mean_loss = mean_loss(model)

    def loss(self, record: Record | None = None) -> float:
        """Returns the mean loss in nats over all target tokens; `record` as in `Evaluator.loss`."""
        return self._mean_loss(self.buckets.once(), record)

    @cached_property
    def tokens(self) -> int:
        """Number of target tokens, end tokens included."""
        return int(self.pairs.target_lengths[self.indices].sum())

    @cached_property
    def bytes(self) -> int:
        """UTF-8 bytes of the targets."""
        return sum(len(text.encode()) for text in self.references(self.indices))

    @cached_property
    def _exact(self) -> bool:
        """Whether decoding returns the original targets."""
        unknown = self.tokenizer.unknown_id
        known = (unknown is None or unknown not in self.pairs.target(i) for i in self.indices)
        return self.tokenizer.lossless and all(known)

    def bits_per_byte(self, loss: float) -> float | None:
        """Converts nats per token to bits per byte of the targets; None if the tokenizer lost text."""
        return bits_per_byte(loss, self.tokens, self.bytes) if self._exact else None

    def translations(
        self, indices: np.ndarray, beams: int = 1, length_penalty: float = 1.0
    ) -> list[str]:
        """Returns the model's translations of the sources of some pairs."""
        sources = [self.pairs.source(index) for index in indices]
        found = self.translate(sources, self.model.max_len, beams, length_penalty)
        return list(map(self.tokenizer.decode, found))

    def references(self, indices: np.ndarray) -> list[str]:
        """Returns the targets of some pairs."""
        return [self.tokenizer.decode(self.pairs.target(index)) for index in indices]

    def sources(self, indices: np.ndarray) -> list[str]:
        """Returns the sources of some pairs."""
        return [self.tokenizer.decode(self.pairs.source(index)) for index in indices]

    def bleu(
        self, beams: int = 1, length_penalty: float = 1.0, max_pairs: int | None = None
    ) -> float | None:
        """Returns the BLEU of the first `max_pairs` pairs, or of all; see `PairEvaluation`.

        It is corpus BLEU with sacrebleu's defaults (Post 2018): cased, tokenizer "13a", one reference.
        """
        if not self._exact:
            return None
        # Imported here because not every evaluation needs it.
        import sacrebleu

        indices = self.indices[:max_pairs]
        found = self.translations(indices, beams, length_penalty)
        # force=True: sacrebleu would warn that sentences ending in " ." look tokenized.
        return sacrebleu.corpus_bleu(found, [self.references(indices)], force=True).score

    def evaluate(self, beams: int, length_penalty: float) -> PairEvaluation:
        """Returns the loss and BLEU on all pairs; logs which pairs are skipped."""
        if message := skipped_pairs_message(self.pairs, self.tokenizer):
            LOGGER.warning(message)
        loss, bleu = self.loss(), self.bleu(beams, length_penalty)
        scores = loss, perplexity(loss), self.bits_per_byte(loss), bleu, beams, length_penalty
        return PairEvaluation(*scores, len(self.indices), self.tokens, self.bytes)


def skipped_pairs_message(pairs: Pairs, tokenizer: Tokenizer) -> str:
    """Returns how many pairs are too long for the model, and the first one; "" if none."""
    indices = np.flatnonzero(~pairs.fits)
    if not len(indices):
        return ""
    first = tokenizer.decode(pairs.source(indices[0]))[:30]
    return (
        f"{len(indices):,} of {len(pairs):,} pairs are longer than model.max_len = {pairs.max_len} "
        f"tokens, end tokens included, and are skipped; the first one begins with {first!r}"
    )
