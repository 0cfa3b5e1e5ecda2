"""The translations after an epoch."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from minigpt.evaluation.pairs import PairEvaluator

# Source, reference, translation.
Row = tuple[str, str, str]


class TranslationSamples(keras.callbacks.Callback):
    """Shows how the model translates, at the end of every `print_every` epochs.

    Always the same held-out sentences, spread evenly over the held-out text, and greedily: what changes
    from epoch to epoch is the model alone.

    Args:
      evaluator: of the held-out pairs.
      count: sentences to show.
      print_every: epochs between two looks.
      show: called with the rows of a table: source, reference, translation.
      record: called with a dictionary (epoch, source, reference, text) a sentence.
    """

    def __init__(
        self,
        evaluator: PairEvaluator,
        count: int,
        print_every: int = 1,
        show: Callable[[Sequence[Row]], None] = lambda rows: None,
        record: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        super().__init__()
        self.evaluator = evaluator
        fitting = evaluator.indices
        # The middles of `count` equal parts.
        places = (np.arange(count) + 0.5) * len(fitting) / max(1, count)
        self.numbers = fitting[np.unique(places.astype(np.int64))]
        self.print_every = print_every
        self.show = show
        self.record = record

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if (epoch + 1) % self.print_every or not len(self.numbers):
            return
        rows = list(
            zip(
                self.evaluator.sources(self.numbers),
                self.evaluator.references(self.numbers),
                self.evaluator.translations(self.numbers),
                strict=True,
            )
        )
        self.show(rows)
        for source, reference, text in rows:
            if self.record is not None:
                self.record(
                    {"epoch": epoch + 1, "source": source, "reference": reference, "text": text}
                )
