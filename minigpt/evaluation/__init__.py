"""How well a model predicts text it has not learned from; one file a kind of model."""

from minigpt.evaluation.pairs import PairEvaluation, PairEvaluator
from minigpt.evaluation.runs import evaluate_run
from minigpt.evaluation.text import Evaluation, Evaluator, baselines, score

__all__ = [
    "Evaluation",
    "Evaluator",
    "PairEvaluation",
    "PairEvaluator",
    "baselines",
    "evaluate_run",
    "score",
]
