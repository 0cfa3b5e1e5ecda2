"""Beam search against an enumeration of all continuations."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from minigpt.generation.beam_search import beam_search
from minigpt.generation.decoding_loop import initial_state

END = 0


def search(tables, beams, new, length_penalty=0.0):
    """Rows of Markov chains: tables[b, t, i] are the logits at step t behind token i.

    Returns:
      For each row a list of (tokens, score), best first.
    """
    tables = tf.constant(tables, tf.float32)

    def next_logits(token_ids, lengths, tables):
        newest = tf.gather(token_ids, lengths - 1, batch_dims=1)
        table = tf.gather(tables, lengths - 1, batch_dims=1)
        return tf.gather(table, newest, batch_dims=1), tables

    rows = len(tables)
    start, ones, limit = tf.fill([rows, 1], END), tf.ones([rows], tf.int32), tf.constant(new)
    state = initial_state(start, ones, limit, 1 + limit, tables)
    ids, lengths, scores = beam_search(
        state, next_logits, tf.constant(beams), END, tf.constant(length_penalty)
    )
    return [
        [
            (tuple(row[:length].tolist()), float(score))
            for row, length, score in zip(*of_row, strict=True)
        ]
        for of_row in zip(ids.numpy(), lengths.numpy(), scores.numpy(), strict=True)
    ]


def every_continuation(table, new, length_penalty):
    """All (tokens, score) of one chain, best first."""
    table = np.asarray(table, "float64")
    logs = table - np.log(np.exp(table).sum(-1, keepdims=True))
    tokens = range(1, table.shape[-1])
    found = []
    for length in range(new + 1):
        for ids in itertools.product(tokens, repeat=length):
            path = [END, *ids] + ([END] if length < new else [])
            total = sum(logs[t, a, b] for t, (a, b) in enumerate(itertools.pairwise(path)))
            found.append((ids, total / (len(path) - 1) ** length_penalty))
    return sorted(found, key=lambda pair: -pair[1])


def random_tables(rows, size=4, new=6, seed=0):
    return np.random.default_rng(seed).normal(0, 1.5, (rows, new, size, size))


@pytest.mark.parametrize("length_penalty", [0.0, 0.7, 1.0, 2.0, -1.0])
def test_with_enough_beams_the_best_continuation_is_found(length_penalty):
    tables = random_tables(5)
    # 3 ** 4 beginnings of 4 tokens, and no beam is ever dropped.
    found = search(tables, 81, 4, length_penalty)
    for table, row in zip(tables, found, strict=True):
        expected = every_continuation(table, 4, length_penalty)[:81]
        assert [tokens for tokens, _ in row[:20]] == [tokens for tokens, _ in expected[:20]]
        np.testing.assert_allclose([s for _, s in row], [s for _, s in expected], rtol=1e-4)


@pytest.mark.parametrize(("rows", "new"), [(0, 3), (2, 0)])
def test_nothing_to_search(rows, new):
    found = search(random_tables(rows), 2, new)
    assert len(found) == rows
    assert all(row[0] == ((), 0.0) for row in found)


def test_more_beams_than_continuations():
    found = search(random_tables(1, size=2), 5, 1)[0]
    assert sorted(tokens for tokens, _ in found[:2]) == [(), (1,)]
    assert [score for _, score in found[2:]] == [-np.inf] * 3
