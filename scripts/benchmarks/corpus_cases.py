"""The cases of the corpus: the speed of tokenization, and memory and speed with more text."""

from collections.abc import Sequence

from benchmarks.case import TOKENS, Case, Outcomes, same_arguments
from benchmarks.measuring import Outcome
from benchmarks.report import Target, median
from benchmarks.rounds import Measurement


def tokenize(quick: bool) -> Case:
    """Megabytes per second of tokenization."""
    asked = {"megabytes": 5 if quick else 50}
    return same_arguments(
        "tokenize",
        "MB/s",
        Target(0.8),
        "our_corpus:tokenize",
        {"tokenizers": "tokenizers_bpe:tokenize"},
        asked,
        prepare=(
            Measurement("our_corpus:prepare", asked),
            Measurement("tokenizers_bpe:prepare", asked),
        ),
        notes=("includes reading and writing, excludes learning the vocabulary",),
        budget_seconds=180,
    )


# Maximum difference in memory between training on 1 GB and on 10 MB of text, in bytes.
_MORE_MEMORY = 100e6


def grow(quick: bool) -> Case:
    """Memory and speed of training with a hundred times as much text."""
    sizes = (1, 10, 50) if quick else (10, 100, 1000)
    length = {"steps": 4 if quick else 20, "seconds": 2 if quick else 10}

    def party(megabytes: int) -> Measurement:
        return Measurement("our_corpus:grow", {"megabytes": megabytes, **length})

    small, middle, large = (f"{size} MB" for size in sizes)

    def checks(outcomes: Outcomes) -> dict[str, bool]:
        found = {}
        for name in (middle, "ours"):
            more = (_most(outcomes[name]) or 0) - (_most(outcomes[small]) or 0)
            what = f"{large if name == 'ours' else name}: {more / 1e6:,.0f} MB more than {small}"
            found[f"{what}, at most 100"] = more <= _MORE_MEMORY
        speed, first = median(outcomes[middle]), median(outcomes[small])
        ratio = speed / first if speed and first else 0
        return found | {f"{middle}: {ratio:.3f} of the speed, at least 0.95": ratio >= 0.95}

    return Case(
        "grow",
        TOKENS,
        Target(0.95, words="≤ 100 MB more"),
        party(sizes[2]),
        {small: party(sizes[0])},
        prepare=tuple(Measurement("our_corpus:text", {"megabytes": size}) for size in sizes),
        others={middle: party(sizes[1])},
        checks=checks,
        notes=(
            f"{large} of text compared with {small}, default configuration; memory is the peak of "
            "RssAnon and includes, in the first round, the creation of the token store",
        ),
        rounds=3,
        budget_seconds=700,
    )


def _most(outcomes: Sequence[Outcome]) -> float | None:
    return max((of["memory"] for of in outcomes if "memory" in of), default=None)
