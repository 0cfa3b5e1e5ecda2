"""Fits the constants of `minigpt.insight.forecast.expected_loss` to the records below, with their errors.

    python scripts/fit_loss_curves.py

The form is that of Hoffmann et al. 2022 (arXiv:2203.15556), equation 10, with the repeated text
of Muennighoff et al. 2023 (arXiv:2305.16264), equation 5.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Record:
    """A run whose learning rate had decayed at its end.

    Attributes:
      name: what it was.
      xz: bits per byte of a sample of the text, compressed; see `expected_loss.compressed_bits`.
      weights: of the blocks, in millions.
      unique: bytes of the training text, in millions.
      trained: bytes that were trained on, repetitions included, in millions.
      bits: bits per byte of the held-out text at the best epoch.
    """

    name: str
    xz: float
    weights: float
    unique: float
    trained: float
    bits: float


STORIES = [
    # EXPERIMENTS.md, 2026-11-22; 3.687 bytes per token.
    Record("192 x 4, 16 x 128, 900 steps", 1.99, 1.795, 5.34, 6.80, 0.209),
    Record("192 x 4, 16 x 128, 350 steps, rate 6e-3", 1.99, 1.795, 5.34, 2.64, 0.280),
    Record("192 x 4, 8 x 256, 900 steps", 1.99, 1.795, 5.34, 6.80, 0.198),
    Record("192 x 4, 16 x 256, 500 steps", 1.99, 1.795, 5.34, 7.55, 0.198),
    Record("128 x 4, 16 x 128, 1,700 steps", 1.99, 0.804, 5.34, 12.8, 0.196),
    Record("128 x 4, 8 x 256, 2,500 steps", 1.99, 0.804, 5.34, 18.9, 0.157),
    # `minigpt train`, whose time limit ended it earlier.
    Record("128 x 4, 8 x 256, 826 steps", 1.99, 0.804, 5.34, 6.24, 0.2084),
    Record("128 x 4, 8 x 256, 855 steps", 1.99, 0.804, 5.34, 6.46, 0.2076),
    Record("128 x 4, 8 x 256, 208 steps", 1.99, 0.804, 5.34, 1.57, 0.591),
    Record("64 x 3, 16 x 96, 732 steps", 1.99, 0.147, 5.34, 4.15, 0.351),
]
TEXTS = [
    # EXPERIMENTS.md, 2026-11-22.
    Record("Shakespeare, characters, 1,500 steps", 3.03, 0.804, 1.00, 1.54, 2.230),
    Record("Shakespeare, characters, 350 steps", 3.03, 0.804, 1.00, 0.358, 2.528),
    Record("500 KB of reviews, 192 x 4, 618 steps", 3.06, 1.795, 0.45, 4.88, 2.046),
    Record("imdb, 3,775 steps", 3.06, 1.795, 33.0, 30.9, 1.621),
    Record("python, 1,329 steps", 2.06, 1.795, 30.0, 9.32, 1.374),
    # Runs for this fit.
    Record("Shakespeare, characters, 200 steps", 3.03, 0.804, 1.00, 0.205, 2.760),
    Record("Shakespeare, characters, 400 steps", 3.03, 0.804, 1.00, 0.410, 2.520),
    Record("Shakespeare, characters, 800 steps", 3.03, 0.804, 1.00, 0.819, 2.342),
]
# Not fitted: what is held out of a short text may be unlike the rest. Runs for this fit.
SHORT = [
    Record("20 KB of Shakespeare, 128 x 3", 3.40, 0.603, 0.018, 0.215, 2.991),
    Record("5 KB of reviews, 128 x 2", 4.12, 0.402, 0.0045, 0.056, 3.367),
    Record("20 KB of reviews, 128 x 3", 3.49, 0.603, 0.018, 0.215, 2.488),
    Record("20 KB of Python, 128 x 3", 1.68, 0.603, 0.018, 0.215, 2.027),
    Record("100 KB of reviews, 128 x 4", 2.99, 0.804, 0.09, 1.036, 2.450),
    Record("100 KB of Python, 128 x 4", 1.21, 0.804, 0.09, 1.316, 1.211),
]


def effective(unique: Any, trained: Any, reuse: float) -> Any:
    """Returns the bytes of new text that are worth as much as text that is read repeatedly."""
    repeated = np.maximum(0.0, trained / unique - 1)
    return np.minimum(trained, unique) + np.minimum(trained, unique) * reuse * (
        1 - np.exp(-repeated / reuse)
    )


def predict(
    parameters: np.ndarray, records: list[Record], floor: float | None, with_xz: bool
) -> np.ndarray:
    """Returns bits per byte: E + A / N^0.34 + B / D^beta, times the compressed size of the text."""
    e, a, b, beta, reuse = np.exp(parameters)
    n = np.array([r.weights for r in records])
    u, t = (np.array([getattr(r, k) for r in records]) for k in ("unique", "trained"))
    scale = np.array([r.xz for r in records]) if with_xz else 1.0
    e = floor if floor is not None else e
    return scale * (e + a / n**0.34 + b / effective(u, t, reuse) ** beta)


def least_squares(residuals: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """Minimizes the sum of squares by Levenberg and Marquardt's method."""
    damping, errors = 1e-2, residuals(x)
    for _ in range(300):
        slopes = np.stack([(residuals(x + h) - errors) / 1e-6 for h in 1e-6 * np.eye(len(x))], 1)
        square = slopes.T @ slopes
        step = np.linalg.solve(square + damping * np.eye(len(x)), -slopes.T @ errors)
        found = residuals(x + np.clip(step, -1, 1))
        if found @ found < errors @ errors:
            x, errors, damping = x + np.clip(step, -1, 1), found, damping / 3
        else:
            damping *= 3
    return x


def fit(records: list[Record], floor: float | None, with_xz: bool) -> np.ndarray:
    bits = np.array([r.bits for r in records])
    start = np.log([0.3, 0.03, 0.3, 0.4, 15.4])

    def residuals(p: np.ndarray) -> np.ndarray:
        errors = np.log(predict(p, records, floor, with_xz) / bits)
        # Weak priors: the published reuse, and exponents near those of larger models.
        return np.concatenate([errors, 0.05 * (p - start)])

    return least_squares(residuals, start)


def report(name: str, records: list[Record], floor: float | None, with_xz: bool) -> np.ndarray:
    p = fit(records, floor, with_xz)
    print(name, dict(zip(("E", "A", "B", "beta", "reuse"), np.exp(p).round(4), strict=True)))
    fitted = predict(p, records, floor, with_xz)
    left_out = []
    for i, record in enumerate(records):
        others = records[:i] + records[i + 1 :]
        left_out.append(predict(fit(others, floor, with_xz), [record], floor, with_xz)[0])
    for record, f, left in zip(records, fitted, left_out, strict=True):
        print(f"  {record.name}: {record.bits:.3f}, fitted {f:.3f}, fitted without it {left:.3f}")
    errors = np.log(np.array(left_out) / [r.bits for r in records])
    print(f"  root mean square error without it {np.sqrt(np.mean(errors**2)):.1%}")
    print(f"  largest {np.abs(errors).max():.1%}")
    return p


if __name__ == "__main__":
    # The entropy of the story generator: scripts/measure_story_entropy.py.
    report("stories", STORIES, 0.067, False)
    constants = report("texts", TEXTS, None, True)
    print("short texts, with these constants")
    found = predict(constants, SHORT, None, True)
    for record, value in zip(SHORT, found, strict=True):
        print(f"  {record.name}: {record.bits:.3f}, by the curve {value:.3f}")
    short_errors = np.log(found / [record.bits for record in SHORT])
    print(f"  root mean square error {np.sqrt(np.mean(short_errors**2)):.1%}")
