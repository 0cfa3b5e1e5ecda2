"""Muon's update against the plain formulation, in double precision and in Keras."""

import keras
import numpy as np
import pytest

from minigpt.training.optimizers import Muon


def newton_schulz(x: np.ndarray, steps: int) -> np.ndarray:
    """As published: Jordan et al. 2024."""
    if x.shape[0] > x.shape[1]:
        return newton_schulz(x.T, steps).T
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


@pytest.mark.parametrize("shape", [(24, 96), (96, 24), (24, 40), (2, 8)])
@pytest.mark.parametrize("smallest", [0.3, 1e-6, 0.0])
def test_orthogonalized_as_in_double_precision(shape, smallest):
    """However far apart the singular values are; 0: a matrix that has not full rank."""
    draw = np.random.default_rng(0)
    u, _, v = np.linalg.svd(draw.normal(size=shape), full_matrices=False)
    values = np.geomspace(1, smallest or 1e-2, min(shape))
    if not smallest:
        values[len(values) // 2 :] = 0
    x = (u * values) @ v
    found = np.asarray(Muon().zeropower_via_newtonschulz5(x.astype("float32"), 5))
    right = newton_schulz(x, 5)
    assert np.abs(found - right).max() < 1e-4 * np.abs(right).max()


@pytest.mark.parametrize("settings", [{}, {"nesterov": False, "adam_lr_ratio": 0.5}])
def test_updates_are_those_of_keras(settings):
    draw = np.random.default_rng(1)
    # Matrices of one shape are updated together.
    shapes = [(16, 48), (48, 16), (16, 48), (16, 16), (16,), (16, 48), (16,)]
    start = [draw.normal(size=shape).astype("float32") for shape in shapes]
    weights = []
    for kind in (Muon, keras.optimizers.Muon):
        variables = [keras.Variable(value) for value in start]
        optimizer = kind(learning_rate=0.02, weight_decay=0.1, **settings)
        draw = np.random.default_rng(2)
        for _ in range(5):
            gradients = [draw.normal(size=shape).astype("float32") for shape in shapes]
            optimizer.apply(gradients, variables)
        weights.append([variable.numpy() for variable in variables])
    for ours, theirs, before in zip(*weights, start, strict=True):
        assert np.abs(theirs - before).max() > 0.01
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("parts", [(16, 16, 16), (24, 8, 16)])
def test_parts_of_a_matrix_are_updated_like_matrices(parts):
    draw = np.random.default_rng(3)
    start = draw.normal(size=(12, 48)).astype("float32")
    ends = np.cumsum(parts)[:-1]
    whole = keras.Variable(start)
    whole.muon_parts = parts
    pieces = [keras.Variable(piece) for piece in np.split(start, ends, axis=1)]
    ours, keras_own = Muon(learning_rate=0.02), keras.optimizers.Muon(learning_rate=0.02)
    for _ in range(3):
        gradient = draw.normal(size=start.shape).astype("float32")
        ours.apply([gradient], [whole])
        keras_own.apply(np.split(gradient, ends, axis=1), pieces)
    assert np.abs(whole.numpy() - start).max() > 0.01
    joined = np.concatenate([piece.numpy() for piece in pieces], 1)
    np.testing.assert_allclose(whole.numpy(), joined, atol=1e-5)
