"""What is measured for the report besides the losses: baselines, the text, memorization."""

import abc
from collections.abc import Callable
from typing import Any, Literal

from minigpt.config import Config
from minigpt.corpus.store_files import Corpus
from minigpt.insight.baselines import (
    compression_baselines,
    evaluation_baselines,
    held_out_bytes,
    held_out_likeness,
)
from minigpt.insight.memorization import measure_memorization
from minigpt.insight.text_checks import check_text
from minigpt.runs.records import read_lines
from minigpt.runs.run import Run

# Measured on two slow cores: tokens counted, bytes compressed by both programs, and products of weights and
# tokens by the engine, per second; the time to check a text, to compare its parts, and to open a model and
# read its text.
TOKENS_PER_SECOND, BYTES_PER_SECOND, PRODUCTS_PER_SECOND = 8e6, 3e5, 1e9
CHECK_SECONDS, LIKENESS_SECONDS, OPEN_SECONDS = 0.5, 0.5, 0.6
# Tokens that are drawn to measure memorization: at the end of a training, and by the commands. The doctor
# draws fewer from a large model, in about this time for each state.
FEW_TOKENS, MANY_TOKENS, DRAW_SECONDS = 1280, 12_800, 30.0


class Measurement(abc.ABC):
    """One of the things that are measured once in a training.

    Args:
      run: the run.
      corpus: its text.
      config: its settings.

    Attributes:
      subject: what it is, for messages.
      seconds: about how long it takes.
    """

    subject: str
    seconds: float

    def __init__(self, run: Run, corpus: Corpus, config: Config) -> None:
        self.run, self.corpus, self.config = run, corpus, config

    @abc.abstractmethod
    def is_due(self, analysis: dict[str, Any], epoch: int, is_finished: bool) -> bool:
        """Returns whether it can be measured now and is not part of `analysis` yet.

        Args:
          analysis: what is known.
          epoch: epochs that have ended.
          is_finished: whether training has ended.
        """

    @abc.abstractmethod
    def measure(self, analysis: dict[str, Any]) -> dict[str, Any]:
        """Returns the keys of analysis.json that change."""


class Baselines(Measurement):
    """Losses of predictions that need no model."""

    subject = "baselines"

    def __init__(self, run: Run, corpus: Corpus, config: Config) -> None:
        super().__init__(run, corpus, config)
        self.seconds = corpus.train.tokens / TOKENS_PER_SECOND

    def is_due(self, analysis: dict[str, Any], epoch: int, is_finished: bool) -> bool:
        return not analysis.get("baselines")

    def measure(self, analysis: dict[str, Any]) -> dict[str, Any]:
        return {"baselines": evaluation_baselines(self.corpus, self.config, compression=False)}


class CompressionBaselines(Measurement):
    """What xz and zstd make of the held-out text."""

    subject = "what xz and zstd make of the held-out text"

    def __init__(self, run: Run, corpus: Corpus, config: Config) -> None:
        super().__init__(run, corpus, config)
        self.seconds = corpus.val.bytes / BYTES_PER_SECOND
        self._is_done = False

    def is_due(self, analysis: dict[str, Any], epoch: int, is_finished: bool) -> bool:
        # They stay null if the tokenizer loses text.
        known = analysis.get("baselines") or {}
        return bool(known) and known.get("xz_bits_per_byte") is None and not self._is_done

    def measure(self, analysis: dict[str, Any]) -> dict[str, Any]:
        self._is_done = True
        held_out = held_out_bytes(self.corpus, self.config)
        xz, zstd = compression_baselines(held_out) if held_out else (None, None)
        found = {"xz_bits_per_byte": xz, "zstd_bits_per_byte": zstd}
        return {"baselines": analysis["baselines"] | found}


class TextChecks(Measurement):
    """What is suspicious about the text."""

    subject = "the text"

    seconds = CHECK_SECONDS

    def is_due(self, analysis: dict[str, Any], epoch: int, is_finished: bool) -> bool:
        return not isinstance(analysis.get("text"), list)

    def measure(self, analysis: dict[str, Any]) -> dict[str, Any]:
        findings = check_text(self.corpus, self.config)
        return {"text": [{"kind": each.kind, "evidence": each.evidence} for each in findings]}


class Likeness(Measurement):
    """How like the training text the held-out text is; an empty dictionary if it cannot be said."""

    subject = "how like the training text the held-out text is"

    seconds = LIKENESS_SECONDS

    def is_due(self, analysis: dict[str, Any], epoch: int, is_finished: bool) -> bool:
        # Held-out pairs are drawn at random.
        return self.config.data.source != "pairs" and not isinstance(analysis.get("held_out"), dict)

    def measure(self, analysis: dict[str, Any]) -> dict[str, Any]:
        train, val = self.corpus.train.ids, self.corpus.val.ids
        return {"held_out": held_out_likeness(train, val, self.corpus.tokenizer.vocab_size) or {}}


class MemorizationOfStates(Measurement):
    """What the best and the last state have copied from the training text.

    Args:
      tokens: how many are drawn from each.
    """

    subject = "memorization"

    def __init__(self, run: Run, corpus: Corpus, config: Config, tokens: int = FEW_TOKENS) -> None:
        super().__init__(run, corpus, config)
        self.tokens = tokens
        self._epoch = 0

    @property
    def seconds(self) -> float:  # type: ignore[override]
        drawn = self.tokens * self.run.facts.get("parameters", 0) / PRODUCTS_PER_SECOND
        return 2 * (OPEN_SECONDS + drawn)

    def is_due(self, analysis: dict[str, Any], epoch: int, is_finished: bool) -> bool:
        self._epoch = epoch
        known = (analysis.get("memorization") or {}).get("last") or {}
        is_current = known.get("epoch") == epoch and known.get("tokens", 0) >= self.tokens // 2
        # Without an epoch there is no state.
        return is_finished and epoch > 0 and not is_current

    def measure(self, analysis: dict[str, Any]) -> dict[str, Any]:
        last = best = self._measure("best")
        if best["epoch"] != self._epoch:
            last = self._measure("last")
        return {"memorization": {"best": best, "last": last | {"state": "last"}}}

    def _measure(self, state: Literal["best", "last"]) -> dict[str, Any]:
        found = measure_memorization(self.run, state, tokens=self.tokens, corpus=self.corpus)
        return found.as_dict()


def measure_all(
    run: Run,
    corpus: Corpus,
    config: Config,
    analysis: dict[str, Any],
    report: Callable[[str], object],
) -> dict[str, Any]:
    """Measures everything that is not known yet.

    Args:
      run, corpus, config: of a training that has ended.
      analysis: what is known.
      report: called with a line before each measurement.
    Returns:
      The keys of analysis.json that change.
    """
    epoch = len(read_lines(run.metrics_file))
    affordable = DRAW_SECONDS * PRODUCTS_PER_SECOND / max(1, run.facts.get("parameters", 0))
    tokens = round(max(FEW_TOKENS, min(MANY_TOKENS, affordable)))
    found: dict[str, Any] = {}
    for measurement in measurements(run, corpus, config, tokens):
        if measurement.is_due(analysis | found, epoch, True):
            report(f"Measuring: {measurement.subject}.")
            found |= measurement.measure(analysis | found)
    return found


def measurements(
    run: Run, corpus: Corpus, config: Config, tokens: int = FEW_TOKENS
) -> list[Measurement]:
    """Returns what is measured of a run, the cheapest and most important first.

    Args:
      tokens: how many are drawn to measure memorization.
    """
    kinds = (Baselines, TextChecks, Likeness, CompressionBaselines)
    memorization = MemorizationOfStates(run, corpus, config, tokens)
    return [*(kind(run, corpus, config) for kind in kinds), memorization]
