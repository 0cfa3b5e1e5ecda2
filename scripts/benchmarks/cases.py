"""All cases, in the order of the report."""

from benchmarks.case import Case
from benchmarks.corpus_cases import grow, tokenize, tokenize_shards
from benchmarks.engine_cases import engine, first_word
from benchmarks.page_cases import page
from benchmarks.sampling_cases import callback, export, sampling
from benchmarks.training_cases import start, training


def build_cases(quick: bool, megabytes: int | None = None) -> list[Case]:
    """Returns all cases in the order of the report, without those of `quality_cases`.

    Args:
      quick: makes every case as short as possible, to show that it runs; the figures are not meaningful.
      megabytes: size of the text of `tokenize-shards`.
    """
    return [
        *training(quick),
        *sampling(quick),
        callback(quick),
        export(quick),
        first_word(quick),
        *engine(quick),
        *page(quick),
        start(quick),
        tokenize(quick),
        tokenize_shards(quick, megabytes),
        grow(quick),
    ]
