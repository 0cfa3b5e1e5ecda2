"""Whether a choice of a token was so close that rounding decides it."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from minigpt.targets.gguf.settings import Settings

TOLERANCE = 1e-4


def is_near_tie(
    logits: np.ndarray, seen: Sequence[int], settings: Settings, seed: int, step: int
) -> bool:
    """Returns whether a choice is within the tolerance of another one.

    Args:
      logits: float64[V], of the next token, -inf for tokens that are never generated.
      seen: the tokens of the text before it.
      settings: how it is chosen.
      seed, step: of the draw.
    """
    scores = logits.copy()
    for token in set(seen):
        penalty = settings.repetition_penalty
        scores[token] = scores[token] / penalty if scores[token] > 0 else scores[token] * penalty
    scores = np.sort(scores)[::-1]
    if settings.temperature == 0 or settings.top_k == 1:
        return bool(scores[0] - scores[1] < TOLERANCE)
    scores = (scores - scores[0]) / settings.temperature
    k = settings.top_k or len(scores)
    if k < len(scores) and scores[k - 1] - scores[k] < TOLERANCE:
        return True
    shares = np.exp(scores[:k])
    before = np.concatenate([[0], np.cumsum(shares / shares.sum())])
    if settings.top_p < 1 and np.abs(before[1:] - settings.top_p).min() < TOLERANCE:
        return True
    if settings.min_p > 0 and np.abs(shares - settings.min_p).min() < TOLERANCE:
        return True
    kept = (before[:-1] < settings.top_p) & (shares >= settings.min_p)
    kept[0] = True
    if settings.typical_p < 1:
        is_typical, is_close = most_typical(shares[kept] / shares[kept].sum(), settings.typical_p)
        if is_close:
            return True
        kept[kept] = is_typical
    cumulative = np.cumsum(shares[kept] / shares[kept].sum())
    noise = tf.random.stateless_uniform([], [seed, step], alg="philox").numpy()
    return bool(np.abs(cumulative - noise).min() < TOLERANCE)


def most_typical(probabilities: np.ndarray, typical_p: float) -> tuple[np.ndarray, bool]:
    """Returns which tokens locally typical sampling keeps, from its definition (Meister et al. 2022).

    Args:
      probabilities: float64[N], largest first.
      typical_p: the probability of the kept ones.
    Returns:
      bool[N]; and whether rounding decides it.
    """
    information = -np.log(probabilities)
    distances = np.abs(information - (probabilities * information).sum())
    order = np.argsort(distances, kind="stable")
    before = np.concatenate([[0], np.cumsum(probabilities[order])])
    count = int((before[:-1] < typical_p).sum())
    is_close = np.abs(before[1:] - typical_p).min() < TOLERANCE
    if count < len(order):
        last, next_ = distances[order[count - 1]], distances[order[count]]
        # Equal logits have the same distance in every implementation.
        same = probabilities[order[count - 1]] == probabilities[order[count]]
        is_close |= not same and next_ - last < TOLERANCE
    is_kept = np.zeros(len(order), bool)
    is_kept[order[:count]] = True
    return is_kept, bool(is_close)
