"""The loss to expect from a training: what the curves need to know, and where they say nothing."""

import math
from dataclasses import replace

import numpy as np

from minigpt.config import Config
from minigpt.insight.forecast.loss_curves import (
    PLACES,
    SAMPLE_BYTES,
    ExpectedLoss,
    Size,
    compressed_bits,
    expected_bits,
)
from minigpt.models.memory_estimate import block_weights
from minigpt.training.tasks.task import Task
from minigpt.training.tasks.translation import Translation

# A text with more bytes in other alphabets than this is unlike those that were fitted.
FOREIGN_SHARE = 0.2
# Loss of a model of words, as shares of the unigram loss; trainings from 20 updates to 10 minutes.
WORDS = (0.75, 1.15)
# The trainings that were fitted had more updates. After fewer than FEW, a model may know no more than the
# frequencies of the tokens; after fewer than VERY_FEW, nothing.
FEW, VERY_FEW = 100, 20


class LossForecast:
    """The expected losses of trainings on one text.

    Args:
      task: the text and the tokenizer.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        corpus = task.corpus
        self.is_exact = corpus.tokenizer.lossless and not corpus.val.unknown_tokens
        self.bytes_per_token = corpus.train.bytes / corpus.train.tokens
        self.compressed: float | None = None
        self.foreign_share = 0.0
        if task.config.data.source != "stories":
            parts = _sample(task)
            self.compressed = compressed_bits(parts)
            sample = np.frombuffer(b"".join(parts), np.uint8)
            self.foreign_share = float((sample >= 0x80).mean())

    def expected(self, config: Config, tokens: float, bytes_per_token: float) -> ExpectedLoss:
        """Returns the expected loss of a training.

        Args:
          config: its settings, which may differ from the task's.
          tokens: tokens that are trained on.
          bytes_per_token: of its tokenizer.
        """
        if config.training.init_from is not None:
            return _unknown("training that starts from a run")
        if isinstance(self.task, Translation):
            return _unknown("pairs of sentences")
        training = config.training
        per_update = training.batch_size * training.accumulate_steps * config.sequence_length
        found = self._by_kind(config, tokens, bytes_per_token)
        assert found.loss is not None
        if (updates := round(tokens / per_update)) >= FEW:
            return found
        low, high = found.loss
        high = max(high, self.task.baselines[0 if updates < VERY_FEW else 1])
        bits = found.bits_per_byte and (found.bits_per_byte[0], found.bits_per_byte[0] * high / low)
        doubt = f"{updates} updates may be too few to learn more than the frequencies of the tokens"
        return ExpectedLoss((low, high), bits, found.source, (*found.doubts, doubt))

    def _by_kind(self, config: Config, tokens: float, bytes_per_token: float) -> ExpectedLoss:
        """Returns the expected loss after enough updates."""
        corpus, (uniform, unigram) = self.task.corpus, self.task.baselines
        if not self.is_exact:
            low, high = (share * unigram for share in WORDS)
            return ExpectedLoss(
                (low, min(high, uniform)),
                None,
                "estimated from the unigram baseline alone: the tokenizer loses text",
            )
        size = Size(block_weights(config.model), corpus.train.bytes, tokens * bytes_per_token)
        found = expected_bits(size, self.compressed, self._unlike(config))
        assert found.bits_per_byte is not None
        # Nats per token of the held-out text. No model should be worse than a uniform guess.
        nats = math.log(2) * bytes_per_token
        if bytes_per_token == self.bytes_per_token:
            nats = math.log(2) * corpus.val.bytes / corpus.val.tokens
        low, high = (min(bits * nats, uniform) for bits in found.bits_per_byte)
        return replace(found, loss=(low, high), bits_per_byte=(low / nats, high / nats))

    def _unlike(self, config: Config) -> list[str]:
        """Returns what the trainings that the curves were fitted to did not have."""
        unlike = []
        if self.foreign_share > FOREIGN_SHARE:
            unlike.append("a script other than the Latin one")
        if config.model.block != "modern":
            unlike.append(f"model.block = {config.model.block!r}")
        if config.training.optimizer != "muon":
            unlike.append(f"training.optimizer = {config.training.optimizer!r}")
        return unlike


def _unknown(subject: str) -> ExpectedLoss:
    return ExpectedLoss(None, None, f"there are no measurements of {subject}")


def _sample(task: Task) -> list[bytes]:
    """Returns parts of the training text for `compressed_bits`."""
    train, tokenizer = task.corpus.train, task.corpus.tokenizer
    ids = train.ids.view(np.ndarray)[1:]
    length = int(SAMPLE_BYTES / PLACES * train.tokens / max(1, train.bytes))
    if len(ids) <= PLACES * length:
        starts, length = [0], len(ids)
    else:
        starts = [int(start) for start in np.linspace(0, len(ids) - length, PLACES)]
    return [
        tokenizer.decode(ids[start : start + length].astype(np.int64)).encode(errors="replace")
        for start in starts
    ]
