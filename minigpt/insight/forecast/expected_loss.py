"""The validation loss to expect from a training run. Imports no TensorFlow.

The curves have the form of Hoffmann et al. 2022 (arXiv:2203.15556), equation 10: bits per byte are
E + A / N^alpha + B / D^beta, for N weights in the blocks and D bytes of training text. Text that is read
repeatedly counts less, as in Muennighoff et al. 2023 (arXiv:2305.16264), equation 5. The constants were
fitted to our own runs by `scripts/fit_loss_curves.py`; EXPERIMENTS.md has their errors.
"""

import lzma
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minigpt.config import Config
from minigpt.corpus.token_store import Corpus
from minigpt.insight.baselines import spread_parts
from minigpt.models.memory_estimate import block_weights

ALPHA = 0.34  # As published; our models differ too little in size to fit it.


@dataclass(frozen=True)
class Curve:
    """Constants of a curve; millions of weights and of bytes.

    Attributes:
      floor, per_size, per_data, beta: E, A, B and beta.
      reuse: passes over the text after which repetition has lost 1 - 1/e of its worth; R* in the paper.
      error: half of the logarithmic width of the range; about twice the error for a run that the curve
        was not fitted to.
    """

    floor: float
    per_size: float
    per_data: float
    beta: float
    reuse: float
    error: float


@dataclass(frozen=True)
class Size:
    """The sizes that determine the loss.

    Attributes:
      weights: weights in the blocks, without tables and head.
      unique: bytes of the training text.
      trained: bytes that are trained on, repetitions included.
    """

    weights: float
    unique: float
    trained: float


# E of the stories is the entropy of their generator.
STORIES = Curve(0.067, 0.0862, 0.6992, 1.3359, 16.9, error=0.35)
# In units of what xz makes of the text.
TEXTS = Curve(0.3236, 0.0281, 0.4094, 0.187, 15.1, error=0.2)
# What the curves were fitted to: lowest and highest values.
COVERED = {"weights": (0.14e6, 1.8e6), "unique": (4.5e3, 3.4e7), "trained": (5e4, 3.2e7)}
# With less, the loss of the stories falls faster than by a power.
STORIES_COVERED = {"trained": (1.5e6, 3.2e7)}
# For fewer bytes than this the error is larger: the held-out text may be unlike the rest.
SHORT_TEXT, SHORT_ERROR = 200_000, 0.45
NAMES = {
    "weights": "weights in the blocks",
    "unique": "bytes of text",
    "trained": "bytes that are trained on",
}
# The range is wider by this factor for each property that is not covered.
WIDER = 1.75
# The highest loss of a forecast is at most this many times the lowest one. That is the width of the range
# for short texts, the widest one whose error was measured; a wider one is a guess.
WIDEST = 2.5
# Bytes of the sample that is compressed, and the number of places it is taken from.
SAMPLE_BYTES, PLACES = 100_000, 5
# A text with more bytes in other alphabets than this is unlike those that were fitted.
FOREIGN_SHARE = 0.2
# Loss of a model of words, as shares of the unigram loss; runs from 20 updates to 10 minutes.
WORDS = (0.75, 1.15)
# The runs that were fitted had more updates. After fewer than FEW, a model may know no more than the
# frequencies of the tokens; after fewer than VERY_FEW, nothing.
FEW, VERY_FEW = 100, 20


@dataclass(frozen=True)
class ExpectedLoss:
    """The loss to expect, as a range, which is a forecast unless it is too wide.

    Attributes:
      loss: lowest and highest validation loss in nats per token; None if nothing is known.
      bits_per_byte: the same in bits per byte; None if the tokenizer loses text, or nothing is known.
      source: where the range comes from, or why nothing is known, in words.
      doubts: what makes the range wider, as clauses.
    """

    loss: tuple[float, float] | None
    bits_per_byte: tuple[float, float] | None
    source: str
    doubts: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """The highest loss divided by the lowest one; infinite if nothing is known."""
        low, high = self.loss or self.bits_per_byte or (1.0, math.inf)
        return high / low

    @property
    def is_forecast(self) -> bool:
        return self.ratio <= WIDEST

    @property
    def basis(self) -> str:
        """Where the forecast comes from and how sure it is, or why there is none, in words."""
        because = f", because {', and '.join(self.doubts)}" if self.doubts else ""
        if self.is_forecast:
            return self.source + (f"; less certain{because}" if because else "")
        if math.isinf(self.ratio):
            return self.source
        return f"the range would be too wide (a factor of {self.ratio:.1f}){because}"

    @property
    def in_words(self) -> str:
        if self.loss is None or not self.is_forecast:
            return f"no forecast: {self.basis}"
        low, high = self.loss
        text = f"{low:.2f} to {high:.2f} nats per token"
        if self.bits_per_byte:
            low, high = self.bits_per_byte
            text += f", {low:.2f} to {high:.2f} bits per byte"
        return f"{text}; {self.basis}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "expected_loss": _as_dict(self.loss) if self.is_forecast else None,
            "expected_bits_per_byte": _as_dict(self.bits_per_byte) if self.is_forecast else None,
            "expected_from": self.basis,
        }


def unique_equivalent(unique: float, trained: float, reuse: float) -> float:
    """Returns how many bytes of new text have the same effect as text that is read repeatedly.

    Args:
      unique: bytes of the text.
      trained: bytes that are read.
      reuse: see `Curve`.
    """
    repetitions = max(0.0, trained / unique - 1)
    return min(trained, unique) * (1 + reuse * (1 - math.exp(-repetitions / reuse)))


def bits_on(curve: Curve, size: Size) -> float:
    """Returns bits per byte by a curve; for `TEXTS` in units of the compressed size."""
    data = unique_equivalent(size.unique, size.trained, curve.reuse)
    return (
        curve.floor
        + curve.per_size / (size.weights / 1e6) ** ALPHA
        + curve.per_data / (data / 1e6) ** curve.beta
    )


def compressed_bits(parts: Sequence[bytes]) -> float:
    """Returns the bits per byte that xz needs for a sample of a text.

    Args:
      parts: `PLACES` parts at equal distances, of `SAMPLE_BYTES` together; a shorter text as a whole.
    """
    sample = b"".join(parts)
    return 8 * len(lzma.compress(sample, preset=9 | lzma.PRESET_EXTREME)) / len(sample)


def expected_bits(size: Size, compressed: float | None, unlike: Sequence[str] = ()) -> ExpectedLoss:
    """Returns the expected bits per byte of a GPT that is trained from random weights.

    Args:
      size: sizes of the model and the text.
      compressed: `compressed_bits` of the text; None for the bundled stories.
      unlike: what else differs from the runs that the curves were fitted to.
    """
    curve = STORIES if compressed is None else TEXTS
    middle = bits_on(curve, size) * (1.0 if compressed is None else compressed)
    covered = COVERED if compressed is not None else COVERED | STORIES_COVERED
    doubts = []
    for name, (low, high) in covered.items():
        value = getattr(size, name)
        if not low <= value <= high:
            doubts.append(
                f"{_plain(value)} {NAMES[name]} are {'fewer' if value < low else 'more'} than those runs "
                f"had ({_plain(low)} to {_plain(high)})"
            )
    doubts += [f"none of those runs had {property}" for property in unlike]
    is_short = size.unique < SHORT_TEXT
    error = (SHORT_ERROR if is_short else curve.error) * WIDER ** len(doubts)
    if is_short:
        doubts.insert(0, "the text is short and may be unlike its held-out part")
    fitted_to = "these stories" if compressed is None else "English text and Python code"
    return ExpectedLoss(
        None,
        (middle * math.exp(-error), middle * math.exp(error)),
        f"estimated from short training runs on {fitted_to}",
        tuple(doubts),
    )


def _plain(number: float) -> str:
    """Returns a number with two significant digits, in full: "9,500"."""
    return f"{float(f'{number:.2g}'):,.0f}"


def _as_dict(values: tuple[float, float] | None) -> dict[str, float] | None:
    return {"low": round(values[0], 4), "high": round(values[1], 4)} if values else None


class LossForecast:
    """The expected losses of runs on one text.

    Args:
      corpus: the text and the tokenizer.
      baselines: the losses of the uniform distribution and of the token frequencies, in nats per token.
      is_stories: whether the text is that of the bundled stories.
    """

    def __init__(self, corpus: Corpus, baselines: tuple[float, float], is_stories: bool) -> None:
        self.corpus, self.baselines = corpus, baselines
        self.is_exact = corpus.tokenizer.lossless and not corpus.val.unknown_tokens
        self.bytes_per_token = corpus.train.bytes / corpus.train.tokens
        self.compressed: float | None = None
        self.foreign_share = 0.0
        if not is_stories:
            parts = _sample(corpus)
            self.compressed = compressed_bits(parts)
            sample = np.frombuffer(b"".join(parts), np.uint8)
            self.foreign_share = float((sample >= 0x80).mean())

    def expected(self, config: Config, tokens: float, bytes_per_token: float) -> ExpectedLoss:
        """Returns the expected loss of a run.

        Args:
          config: its settings.
          tokens: tokens that are trained on.
          bytes_per_token: of its tokenizer, which may be another one than the corpus has.
        """
        if config.training.init_from is not None:
            return _unknown("training that starts from a run")
        if config.data.source == "pairs":
            return _unknown("pairs of sentences")
        training = config.training
        per_update = training.batch_size * training.accumulate_steps * config.sequence_length
        found = self._by_kind(config, tokens, bytes_per_token)
        assert found.loss is not None
        if (updates := round(tokens / per_update)) >= FEW:
            return found
        low, high = found.loss
        high = max(high, self.baselines[0 if updates < VERY_FEW else 1])
        bits = found.bits_per_byte and (found.bits_per_byte[0], found.bits_per_byte[0] * high / low)
        doubt = f"{updates} updates may be too few to learn more than the frequencies of the tokens"
        return ExpectedLoss((low, high), bits, found.source, (*found.doubts, doubt))

    def _by_kind(self, config: Config, tokens: float, bytes_per_token: float) -> ExpectedLoss:
        """Returns the expected loss after enough updates."""
        corpus, (uniform, unigram) = self.corpus, self.baselines
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
        """Returns the differences from the runs that the curves were fitted to."""
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


def _sample(corpus: Corpus) -> list[bytes]:
    """Returns parts of the training text for `compressed_bits`."""
    train, tokenizer = corpus.train, corpus.tokenizer
    ids = train.ids.view(np.ndarray)[1:]
    length = int(SAMPLE_BYTES / PLACES * train.tokens / max(1, train.bytes))
    parts = [ids] if len(ids) <= PLACES * length else spread_parts(ids, length, PLACES)
    return [tokenizer.decode(part.astype(np.int64)).encode(errors="replace") for part in parts]
