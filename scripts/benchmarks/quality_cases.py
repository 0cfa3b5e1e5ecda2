"""The cases of time to quality: what the peers train on and how long, and the targets for minigpt."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import util
from typing import Any

from benchmarks.rounds import Measurement

BITS, NATS = "bits/byte", "nats/word"


@dataclass(frozen=True)
class Goal:
    """A score that both sides are timed to.

    Attributes:
      words: who sets it, for the report.
      fixed: the score, if nobody sets it.
      end: otherwise, the number of the peers' evaluation whose lowest score it is.
      ratio: minimum ratio of the peer's seconds to ours; None for no target.
      seconds: maximum seconds of ours; None for no target.
    """

    words: str
    fixed: float | None = None
    end: int = -1
    ratio: float | None = None
    seconds: float | None = None

    @property
    def target(self) -> str:
        """The requirement, for the report; "" for none."""
        parts = [f"≥ {self.ratio:.3g} ×"] if self.ratio is not None else []
        return ", ".join(parts + ([f"≤ {self.seconds:.3g} s"] if self.seconds is not None else []))


@dataclass(frozen=True)
class QualityCase:
    """A case whose peers train first; minigpt then trains until it reaches their scores.

    Attributes:
      name, unit: as reported.
      text: the text of our side, as `our_quality.until` takes it.
      peers: measurements by name.
      goals: the scores, in any order.
      prepare: run once; not measured.
      rounds: number of times that both sides are trained.
      packages: modules that the peers need.
      missing: why the case cannot run; "" if it can.
      notes: remarks for the report.
    """

    name: str
    unit: str
    text: str
    peers: Mapping[str, Measurement]
    goals: tuple[Goal, ...]
    prepare: tuple[Measurement, ...]
    rounds: int = 1
    packages: tuple[str, ...] = ()
    missing: str = ""
    notes: tuple[str, ...] = ()

    def ours(self, goals: Sequence[float], overrides: Sequence[str]) -> Measurement:
        """Returns the measurement of minigpt."""
        arguments: dict[str, Any] = {"text": self.text, "goals": list(goals)}
        return Measurement("our_quality:until", arguments | {"overrides": list(overrides)})

    def why_skipped(self) -> str:
        """Returns why the case cannot run here; "" if it can."""
        absent = [name for name in self.packages if not util.find_spec(name)]
        if absent:
            return f"{', '.join(absent)} not installed: pip install -c constraints.txt -e '.[benchmark]'"
        return self.missing


@dataclass(frozen=True)
class Texts:
    """Paths of texts; see the options of `scripts/benchmark.py`."""

    shakespeare: str | None = None
    imdb: str | None = None
    prose: str | None = None


_NO_ARCHIVE = "set MINIGPT_IMDB to the archive aclImdb_v1.tar.gz"


def build_quality_cases(quick: bool, texts: Texts) -> list[QualityCase]:
    """Returns all cases of time to quality.

    Args:
      quick: makes every case as short as possible, to show that it runs; the figures are not meaningful.
    """
    fixed, steps = (4.0, 150) if quick else (2.75, 2000)
    shakespeare = (Measurement("quality_texts:prepare_shakespeare", {"path": texts.shakespeare}),)
    # The same run for both cases, so that it can be reused.
    recipe = Measurement(
        "nanogpt:quality", {"text": "shakespeare", "steps": steps, "goals": [fixed]}
    )
    start, words_seconds = (25, (30, 40, 50)) if quick else (0, (129, 259, 623))
    default_seconds, text_seconds = start or 180, start or 300
    words_limits = (None, None, 120.0)
    return [
        QualityCase(
            "quality",
            BITS,
            "shakespeare",
            {"nanoGPT": recipe},
            (Goal("fixed", fixed=fixed, ratio=8),),
            shakespeare,
            rounds=3,
            packages=("torch",),
        ),
        QualityCase(
            "quality-characters",
            BITS,
            "shakespeare",
            {"nanoGPT": recipe},
            (Goal(f"after {steps:,} steps", ratio=8),),
            shakespeare,
            rounds=3,
            packages=("torch",),
        ),
        QualityCase(
            "quality-words",
            NATS,
            "words",
            {"tutorial": Measurement("tutorial:quality", {"seconds": words_seconds})},
            tuple(
                Goal(f"after {after} s", end=end, seconds=limit)
                for end, (after, limit) in enumerate(zip(words_seconds, words_limits, strict=True))
            ),
            (Measurement("quality_texts:prepare_words", {"imdb": texts.imdb}),),
            missing="" if texts.imdb else _NO_ARCHIVE,
            notes=("the token ids of the reviews exist before both sides start",),
        ),
        QualityCase(
            "quality-default",
            BITS,
            "stories",
            {
                "keras-hub": Measurement("gpt2_quality:keras_hub", {"seconds": default_seconds}),
                "PyTorch": Measurement("gpt2_quality:pytorch", {"seconds": default_seconds}),
            },
            (Goal(f"after {default_seconds} s", ratio=4.8),),
            (Measurement("quality_texts:prepare_stories"),),
            packages=("keras_hub", "torch", "transformers"),
            notes=("the token ids of the stories exist before both sides start",),
        ),
        QualityCase(
            "quality-text",
            BITS,
            "prose",
            {"nanoGPT": Measurement("nanogpt:quality", {"text": "prose", "seconds": text_seconds})},
            (Goal(f"after {text_seconds} s", ratio=8),),
            (
                Measurement(
                    "quality_texts:prepare_prose", {"path": texts.prose, "imdb": texts.imdb}
                ),
            ),
            packages=("torch",),
            missing=""
            if texts.prose or texts.imdb
            else f"set MINIGPT_PROSE to a text, or {_NO_ARCHIVE}",
            notes=(
                f"text: {os.path.basename(texts.prose) if texts.prose else 'the first 500 KB of reviews'}",
            ),
        ),
    ]
