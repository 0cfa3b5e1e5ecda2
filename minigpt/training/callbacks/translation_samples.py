"""Translates held-out sentences after an epoch."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigpt.evaluation.pairs import PairEvaluator
from minigpt.training.callbacks.callback import Callback

# Source, reference, translation.
Row = tuple[str, str, str]


class TranslationSamples(Callback):
    """Shows greedy translations at the end of every `print_every` epochs.

    The sentences are always the same, spread evenly over the held-out text, so that epochs can be
    compared.

    Args:
      evaluator: translates the held-out pairs.
      count: number of sentences.
      print_every: epochs between two calls.
      show: called with the rows of a table: source, reference, translation.
      record: called with a dictionary (epoch, source, reference, text) per sentence.
    """

    def __init__(
        self,
        evaluator: PairEvaluator,
        count: int,
        print_every: int = 1,
        show: Callable[[Sequence[Row]], None] = lambda rows: None,
        record: Callable[[dict[str, Any]], None] = lambda record: None,
    ) -> None:
        super().__init__()
        self.evaluator = evaluator
        fitting = evaluator.indices
        # The middles of `count` equal parts.
        places = (np.arange(count) + 0.5) * len(fitting) / max(1, count)
        self.indices = fitting[np.unique(places.astype(np.int64))]
        self.print_every = print_every
        self.show = show
        self.record = record

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if (epoch + 1) % self.print_every or not len(self.indices):
            return
        rows = list(
            zip(
                self.evaluator.sources(self.indices),
                self.evaluator.references(self.indices),
                self.evaluator.translations(self.indices),
                strict=True,
            )
        )
        self.show(rows)
        for source, reference, text in rows:
            self.record(
                {"epoch": epoch + 1, "source": source, "reference": reference, "text": text}
            )
