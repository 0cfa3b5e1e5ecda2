"""All cases, in the order of the report."""

from benchmarks.case import Case
from benchmarks.corpus_cases import grow, tokenize
from benchmarks.engine_cases import engine, first_word
from benchmarks.page_cases import page
from benchmarks.plan_cases import plan
from benchmarks.quality_cases import Texts
from benchmarks.sampling_cases import callback, export, sampling
from benchmarks.training_cases import start, training


def build_cases(quick: bool, texts: Texts | None = None) -> list[Case]:
    """Returns all cases in the order of the report, without those of `quality_cases`.

    Args:
      quick: makes every case as short as possible, to show that it runs; the figures are not meaningful.
      texts: the texts of the user.
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
        grow(quick),
        *plan(texts or Texts()),
    ]
