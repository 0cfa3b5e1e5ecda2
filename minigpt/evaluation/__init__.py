"""Scores of a model on text it was not trained on.

`evaluate_run` scores a run. `text` and `pairs` compute the loss and import TensorFlow; the rest does not.
"""

from minigpt.evaluation.runs import evaluate_files, evaluate_run
from minigpt.evaluation.scores import Evaluation, PairEvaluation, baselines, pair_baselines, score

__all__ = [
    "Evaluation",
    "PairEvaluation",
    "baselines",
    "evaluate_files",
    "evaluate_run",
    "pair_baselines",
    "score",
]
