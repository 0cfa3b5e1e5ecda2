"""Choosing the next token, against formulas and a plain numpy formulation."""

import functools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from minigpt.generation.sampling import (
    FEW_CANDIDATES,
    SamplingSettings,
    ban,
    draw,
    penalize_repetition,
    sample,
    shape_distribution,
    top_k_filter,
    top_p_filter,
    typical_p_filter,
    uniform_noise,
)


@functools.cache
def in_graph(function, jit=False):
    """Traced and compiled once for each shape, not once for each call."""
    return tf.function(function, jit_compile=jit)


def draw_with_seeds(candidates, seeds, step):
    return draw(candidates, uniform_noise(seeds, step))


def sample_many(logits, draws, **settings):
    """Draws from one row of logits with seeds 0..draws-1."""
    rows = tf.tile(tf.constant([logits], tf.float32), [draws, 1])
    settings = SamplingSettings(**settings).as_tensors()
    # A graph: the seeds are taken one by one.
    return in_graph(sample)(rows, tf.range(draws), tf.constant(3), settings).numpy()


def most_typical(probabilities, typical_p):
    """Meister et al. 2022: the smallest set of the tokens with the least | -log p - H |.

    At the same distance, the more probable token comes first, then the one with the lower id.
    """
    possible = [i for i, p in enumerate(probabilities) if p > 0]
    entropy = -sum(probabilities[i] * np.log(probabilities[i]) for i in possible)
    distance = {i: abs(-np.log(probabilities[i]) - entropy) for i in possible}
    kept = []
    for i in sorted(possible, key=lambda i: (distance[i], -probabilities[i], i)):
        kept.append(i)
        if probabilities[kept].sum() >= typical_p:
            break
    return kept


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"top_k": 1},
        {"top_p": 0.0},
        {"min_p": 1.0},
    ],
    ids=str,
)
def test_greedy(settings):
    assert set(sample_many([10, 30, 20], 50, **settings)) == {1}


def test_a_tiny_temperature_does_not_overflow():
    settings = SamplingSettings(temperature=1e-37).as_tensors()
    candidates, ids = shape_distribution(tf.constant([[10.0, 30.0, 20.0]]), settings, 3)
    assert ids.numpy().tolist() == [[1, 2, 0]]
    assert tf.nn.softmax(candidates).numpy().tolist() == [[1.0, 0.0, 0.0]]


def test_top_k_keeps_exactly_k_ties_included():
    candidates = tf.constant([[1.0, 1.0, 1.0, 1.0]])
    for k in (1, 2, 3):
        assert np.isfinite(top_k_filter(candidates, tf.constant(k))).sum() == k
    for no_limit in (0, -3, 4, 99):
        assert np.isfinite(top_k_filter(candidates, tf.constant(no_limit))).sum() == 4


def test_top_p_keeps_the_fewest_candidates():
    candidates = tf.math.log(tf.constant([[0.5, 0.3, 0.15, 0.05]]))
    for p, left in [(0.0, 1), (0.4, 1), (0.6, 2), (0.79, 2), (0.9, 3), (0.97, 4), (1.0, 4)]:
        assert np.isfinite(top_p_filter(candidates, tf.constant(p))).sum() == left, p


@pytest.mark.parametrize("jit", [False, True])
def test_typical_p_keeps_the_candidates_of_its_definition(jit):
    generator, found_less = np.random.default_rng(0), 0
    for _ in range(40):
        # Rounded, so that there are ties; some are masked.
        logits = np.sort(generator.normal(scale=3, size=30).round(1))[::-1].astype("float32")
        logits[20:] = -np.inf
        probabilities = np.exp(logits.astype("float64") - logits.max())
        probabilities /= probabilities.sum()
        for p in (0.05, 0.3, 0.7, 0.95):
            arguments = tf.constant(logits[None]), tf.constant(p)
            kept = in_graph(typical_p_filter, jit)(*arguments).numpy()[0]
            expected = sorted(most_typical(probabilities, p))
            assert np.flatnonzero(np.isfinite(kept)).tolist() == expected
            np.testing.assert_array_equal(kept[expected], logits[expected])
            found_less += 0 not in expected
    # Other than with the filters before it, the most probable candidate may be left out.
    assert found_less > 20


def test_a_broken_model_does_not_crash_the_process():
    assert sample_many([float("nan")] * 4, 3).max() < 4


FIXTURE = np.load(Path(__file__).parents[1] / "fixtures" / "sampling.npz")


@pytest.mark.parametrize("number", range(len(FIXTURE["cases"])))
def test_distributions_are_those_of_transformers(number):
    """scripts/make_sampling_fixtures.py has run the logits processors of transformers."""
    *settings, banned = FIXTURE["cases"][number].tolist()
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    settings = SamplingSettings(**dict(zip(names, settings, strict=True))).as_tensors()
    logits, texts = FIXTURE["logits"][number], FIXTURE["texts"][number]
    vocab_size = logits.shape[1]
    seen = np.stack([np.isin(np.arange(vocab_size), text) for text in texts])
    scores = penalize_repetition(logits, seen, settings.repetition_penalty)
    scores = ban(scores, np.isin(np.arange(vocab_size), FIXTURE["banned"] if banned else []))
    candidates, token_ids = shape_distribution(scores, settings, vocab_size)
    found = np.zeros_like(logits)
    np.put_along_axis(found, token_ids.numpy(), tf.nn.softmax(candidates).numpy(), axis=1)
    np.testing.assert_allclose(found, FIXTURE["probabilities"][number], atol=1e-6)
    assert ((found > 0) == (FIXTURE["probabilities"][number] > 0)).all()


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        SamplingSettings(top_k=FEW_CANDIDATES, temperature=0.7, top_p=0.9, min_p=0.1),
        SamplingSettings(top_k=30, typical_p=0.5),
        SamplingSettings(temperature=0.0, top_k=200),
    ],
)
def test_few_candidates_draw_the_same_as_all(settings, jit):
    generator = np.random.default_rng(5)
    # Rounded, so that there are ties.
    logits = tf.constant(generator.normal(size=(64, 4 * FEW_CANDIDATES)).round(1), tf.float32)
    settings, seeds, step = settings.as_tensors(), tf.range(64), tf.constant(3)
    candidates, token_ids = shape_distribution(logits, settings, logits.shape[1])
    right = draw_with_seeds(candidates, seeds, step)
    right = tf.gather(token_ids, right, axis=1, batch_dims=1)
    drawn = in_graph(sample, jit)(logits, seeds, step, settings)
    np.testing.assert_array_equal(drawn, right)


def test_noise_is_that_of_tensorflow_with_xla_and_without():
    seeds = [0, 1, 2**31 - 1]
    # Of two equal candidates the second is drawn where the noise is above a half.
    candidates = tf.zeros([len(seeds), 2])
    for step in range(20):
        noise = [tf.random.stateless_uniform([], [seed, step], alg="philox") for seed in seeds]
        for jit in (False, True):
            drawn = in_graph(draw_with_seeds, jit)(
                candidates, tf.constant(seeds), tf.constant(step)
            )
            np.testing.assert_array_equal(drawn, [int(x >= 0.5) for x in noise])
