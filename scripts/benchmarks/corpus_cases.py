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


def tokenize_shards(quick: bool, megabytes: int | None = None) -> Case:
    """Tokenization by several processes, killed in the middle and started again, and its memory.

    Args:
      quick: a short text, unless `megabytes` is set.
      megabytes: size of the text.
    """
    size = megabytes or (100 if quick else 2000)
    small = max(50, size // 10)

    def party(megabytes: int, kill: bool) -> Measurement:
        asked = {"megabytes": megabytes, "kill": kill}
        return Measurement("our_shards:tokenize", asked, timeout_seconds=3600)

    def checks(outcomes: Outcomes) -> dict[str, bool]:
        found = {}
        for outcome in outcomes["ours"]:
            if "peaks" not in outcome:
                continue
            before, again = outcome["shards_before_kill"][0], outcome["shards_written_again"]
            compared = outcome["compared"]
            found[f"{compared:,} ids equal those of one process"] = outcome["equal"]
            found[f"killed after {before} shards, {again} of them written again"] = (
                before > 0 and again == 0
            )
            for name, peaks in outcome["peaks"].items():
                words = f"{name}: {peaks['anonymous'] / 1e6:,.0f} MB anonymous"
                words += f", {peaks['resident'] / 1e6:,.0f} MB resident"
                found[words] = True
            for small_outcome in outcomes[f"{small} MB"]:
                found |= _more_memory(small_outcome, outcome)
        return found

    return Case(
        "tokenize-shards",
        "MB/s",
        Target(words="memory flat, nothing written again, equal ids"),
        party(size, kill=True),
        {},
        prepare=tuple(Measurement("our_shards:text", {"megabytes": n}) for n in (small, size)),
        others={f"{small} MB": party(small, kill=False)},
        checks=checks,
        notes=(f"{size:,} MB of text, byte pairs learned from a sample of 16 MB of it",),
        rounds=1,
        budget_seconds=1200,
    )


# Allowed growth: of a worker, whatever the text; of the first process, for each document.
_MORE_OF_WORKER, _BYTES_PER_DOCUMENT = 30e6, 100


def _more_memory(small: Outcome, large: Outcome) -> dict[str, bool]:
    """Compares the peaks of anonymous memory of a small text and a large one."""
    if "peaks" not in small:
        return {}

    def most(outcome: Outcome, kind: str) -> float:
        peaks = outcome["peaks"].items()
        return max(peak["anonymous"] for name, peak in peaks if name.startswith(kind))

    worker = most(large, "worker") - most(small, "worker")
    parent = most(large, "parent") - most(small, "parent")
    each = parent / max(1, large["documents"] - small["documents"])
    return {
        f"worker: {worker / 1e6:,.0f} MB more, at most 30": worker <= _MORE_OF_WORKER,
        f"parent: {each:,.0f} bytes a document more, at most 100": each <= _BYTES_PER_DOCUMENT,
    }


def _most(outcomes: Sequence[Outcome]) -> float | None:
    return max((of["memory"] for of in outcomes if "memory" in of), default=None)
