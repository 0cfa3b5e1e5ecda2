"""A power law that is fitted to a training curve, to forecast the loss after more training.

The loss is fitted as a function of the sum of the learning rates of all updates so far, after Tissue et
al. 2024, "Scaling Law with Learning Rate Annealing": with a schedule that decays, the loss as a function of
the updates is flat at the end because the learning rate is low, not because there is nothing left to learn.
The decrease that the decay itself causes is the same at the end of a longer training, so only updates with
a high learning rate are fitted.
"""

from dataclasses import dataclass

import numpy as np

# Left out: the beginning, up to this share of the sum, and updates with less than this share of the
# maximum.
_FIRST_SHARE, _HIGH_RATE = 0.2, 0.3
_POINTS = 24
_EXPONENTS = np.linspace(0.05, 1.5, 59)


@dataclass(frozen=True)
class PowerLaw:
    """loss(x) = floor + scale · x^-exponent in nats per token, where x = 1 at the end of training."""

    floor: float
    scale: float
    exponent: float

    def at(self, x: float) -> float:
        return float(self.floor + self.scale * x**-self.exponent)


def fit_power_law(
    steps: np.ndarray, losses: np.ndarray, learning_rates: np.ndarray
) -> PowerLaw | None:
    """Fits a power law by least squares of the relative errors, over equal parts of the logarithm of x.

    Args:
      steps: float[n], increasing.
      losses: float[n], nats per token.
      learning_rates: float[n], at these steps.
    Returns:
      The law, with neither floor nor scale below 0; None if there are fewer than four points.
    """
    if not len(steps) or not learning_rates.max() > 0:
        return None
    sums = np.cumsum(learning_rates * np.diff(steps, prepend=0.0))
    high = learning_rates >= _HIGH_RATE * learning_rates.max()
    x, losses = smoothed(sums[high] / sums[-1], losses[high])
    if len(x) < 4:
        return None
    weights = 1 / np.maximum(losses, 1e-9)
    best, least = None, np.inf
    for exponent in _EXPONENTS:
        powers = x**-exponent
        columns = np.stack([np.ones_like(powers), powers], axis=1)
        floor, scale = np.linalg.lstsq(columns * weights[:, None], losses * weights, rcond=None)[0]
        if floor < 0:
            relative = powers * weights
            floor, scale = 0.0, relative.sum() / (relative @ relative)
        if scale < 0:
            floor, scale = weights.sum() / (weights @ weights), 0.0
        error = np.square((floor + scale * powers) * weights - 1).sum()
        if error < least:
            best, least = PowerLaw(float(floor), float(scale), float(exponent)), error
    return best


def smoothed(x: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Averages a curve without its beginning over parts of equal length on a logarithmic scale.

    Returns:
      The mean x and the mean losses of the parts that contain points.
    """
    kept = x >= _FIRST_SHARE
    x, losses = x[kept], losses[kept]
    if not len(x):
        return x, losses
    edges = np.geomspace(x[0], x[-1], _POINTS + 1)
    parts = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, _POINTS - 1)
    count = np.bincount(parts, minlength=_POINTS)
    found = count > 0
    return (
        np.bincount(parts, x, _POINTS)[found] / count[found],
        np.bincount(parts, losses, _POINTS)[found] / count[found],
    )
