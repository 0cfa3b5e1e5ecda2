"""All cases, in the order of the report."""

from benchmarks.case import Case
from benchmarks.corpus_cases import grow, tokenize
from benchmarks.sampling_cases import callback, export, sampling
from benchmarks.training_cases import quality, start, training


def build_cases(quick: bool, shakespeare: str | None = None) -> list[Case]:
    """Returns all cases in the order of the report.

    Args:
      quick: makes every case as short as possible, to show that it runs; the figures are not meaningful.
      shakespeare: path of tiny Shakespeare; downloaded if None.
    """
    return [
        *training(quick),
        quality(quick, shakespeare),
        *sampling(quick),
        callback(quick),
        export(quick),
        start(quick),
        tokenize(quick),
        grow(quick),
    ]
