"""A power law that is fitted to a training curve, to forecast what more training would give."""

from dataclasses import dataclass

import numpy as np

# Steps before this share of the training are left out: the warm-up does not follow the power law.
_FIRST_SHARE = 0.1
_POINTS = 24
_EXPONENTS = np.linspace(0.05, 1.5, 59)


@dataclass(frozen=True)
class PowerLaw:
    """loss(step) = floor + scale · step^-exponent, in nats per token (Hestness et al. 2017)."""

    floor: float
    scale: float
    exponent: float

    def at(self, step: float) -> float:
        return float(self.floor + self.scale * step**-self.exponent)


def fit_power_law(steps: np.ndarray, losses: np.ndarray) -> PowerLaw | None:
    """Fits a power law by least squares, with every part of the logarithm of the steps weighted equally.

    Args:
      steps: float[n], increasing.
      losses: float[n], nats per token.
    Returns:
      The law, with neither floor nor scale below 0; None if there are fewer than four points.
    """
    steps, losses = smoothed(steps, losses)
    if len(steps) < 4:
        return None
    best, least = None, np.inf
    for exponent in _EXPONENTS:
        powers = steps**-exponent
        columns = np.stack([np.ones_like(powers), powers], axis=1)
        floor, scale = np.linalg.lstsq(columns, losses, rcond=None)[0]
        if floor < 0:
            floor, scale = 0.0, powers @ losses / (powers @ powers)
        if scale < 0:
            floor, scale = losses.mean(), 0.0
        error = np.square(floor + scale * powers - losses).sum()
        if error < least:
            best, least = PowerLaw(float(floor), float(scale), float(exponent)), error
    return best


def smoothed(steps: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Averages a curve over parts of equal length on a logarithmic scale.

    Returns:
      The mean steps and the mean losses of the parts that contain points.
    """
    kept = steps >= max(1.0, _FIRST_SHARE * steps[-1]) if len(steps) else np.zeros(0, bool)
    steps, losses = steps[kept], losses[kept]
    if not len(steps):
        return steps, losses
    edges = np.geomspace(steps[0], steps[-1], _POINTS + 1)
    parts = np.clip(np.searchsorted(edges, steps, side="right") - 1, 0, _POINTS - 1)
    count = np.bincount(parts, minlength=_POINTS)
    found = count > 0
    return (
        np.bincount(parts, steps, _POINTS)[found] / count[found],
        np.bincount(parts, losses, _POINTS)[found] / count[found],
    )
