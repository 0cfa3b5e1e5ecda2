"""Measures what a mixture of a trained model with a frozen n-gram of its tokens adds.

    python scripts/measure_mixture.py RUN...

Probabilities are mixed as w · model + (1 - w) · n-gram. The weight w is the best one on the first half of
the held-out text; the scores are those of the second half, in adjacent windows.
"""

import math
import sys
from typing import Any

import numpy as np

from minigpt.evaluation.text import Evaluator
from minigpt.insight.baselines import MOST_READ, ngram_losses
from minigpt.models import GPT
from minigpt.runs.run import Run, open_run_corpus

WEIGHTS = np.linspace(0, 1, 41)


def mixed(model: np.ndarray, ngram: np.ndarray) -> tuple[float, float, float, float]:
    """Returns w, and the losses of the model, the n-gram and the mixture on the second half, in nats.

    Args:
      model, ngram: float[n], the loss of each token.
    """

    def loss(w: float, half: slice) -> float:
        return float(-np.log(w * np.exp(-model[half]) + (1 - w) * np.exp(-ngram[half])).mean())

    first, second = slice(None, len(model) // 2), slice(len(model) // 2, None)
    weight = min(WEIGHTS, key=lambda w: loss(w, first))
    return float(weight), loss(1, second), loss(0, second), loss(weight, second)


def main() -> None:
    for path in sys.argv[1:]:
        run = Run(path)
        corpus, model = open_run_corpus(run), run.load_model()
        assert corpus is not None, f"{path}: its text has changed"
        assert isinstance(model, GPT), f"{path}: should be a model of text"
        val = corpus.val.ids[: MOST_READ + 1]
        losses: list[np.ndarray] = []

        def record(
            _: Any, __: Any, weights: np.ndarray, found: np.ndarray, to: Any = losses
        ) -> None:
            to.append(found[weights > 0])

        Evaluator(model).loss(val, record)
        train = corpus.train.ids[-MOST_READ:]
        ngram = ngram_losses(train, val, corpus.tokenizer.vocab_size)
        weight, *scores = mixed(np.concatenate(losses).astype(np.float64), ngram)
        bits = corpus.val.tokens / corpus.val.bytes / math.log(2)
        ours, theirs, both = (score * bits for score in scores)
        print(
            f"{path}: {ours:.3f} bits per byte, n-gram {theirs:.3f}, mixture {both:.3f} "
            f"({both / ours - 1:+.1%}) with w = {weight:.2f}"
        )


if __name__ == "__main__":
    main()
