"""Batches of pairs: every pair once a pass, little padding, no state."""

import numpy as np
import pytest

from minigpt.corpus.pair_batches import Buckets, Pairs
from minigpt.errors import UserError

START, END = 0, 1


def made(count=500, seed=0, longest=20):
    """Different sentences, as ids of a corpus and as lists."""
    draw = np.random.default_rng(seed)
    sentences, ids = [], [END]
    for number in range(count):
        pair = []
        for _ in range(2):
            length = int(min(longest, 1 + draw.geometric(0.25)))
            pair.append([100 + number, *draw.integers(2, 99, length - 1)])
            ids += [*pair[-1], END]
        sentences.append(pair)
    return np.array(ids, np.uint16), sentences


@pytest.fixture(scope="module")
def pairs():
    return Pairs(made()[0], END, max_len=32, start_id=START)


def rows_of(batch):
    """The source and target of every row of a batch that is not padding."""
    (source_ids, lengths, target_ids), targets, weights = batch
    np.testing.assert_array_equal(target_ids[:, 0], START)
    np.testing.assert_array_equal(target_ids[:, 1:], targets[:, :-1])
    found = []
    for row in range(len(source_ids)):
        length = int(weights[row].sum())
        # Weights are 1 for the tokens of the target and 0 after them.
        np.testing.assert_array_equal(weights[row], np.arange(len(weights[row])) < length)
        if length:
            found.append((tuple(source_ids[row, : lengths[row]]), tuple(targets[row, :length])))
    return found


@pytest.mark.parametrize(("batch_size", "max_buckets"), [(7, 1), (16, 3), (64, 4), (500, 2)])
def test_every_pair_exactly_once_a_pass(pairs, batch_size, max_buckets):
    buckets = Buckets(pairs, batch_size, max_buckets)
    expected = sorted((tuple([*s, END]), tuple([*t, END])) for s, t in made()[1])
    for first in (0, buckets.batches_in_pass):
        steps = range(first, first + buckets.batches_in_pass)
        rows = [row for step in steps for row in rows_of(buckets.training_batch(3, step))]
        assert sorted(rows) == expected
    once = [row for batch in buckets.once() for row in rows_of(batch)]
    assert sorted(once) == expected


def test_a_batch_is_a_function_of_seed_and_step(pairs):
    def flat(batch):
        (source, lengths, target), targets, weights = batch
        return [*map(np.ndarray.tolist, (source, lengths, target, targets, weights))]

    one, other = Buckets(pairs, 16, 3), Buckets(pairs, 16, 3)
    steps = [5, 80, 3, 5]
    assert [flat(one.training_batch(7, s)) for s in steps] == [
        flat(other.training_batch(7, s)) for s in steps
    ]
    assert flat(one.training_batch(7, 5)) != flat(one.training_batch(8, 5))
    assert flat(one.training_batch(7, 5)) != flat(one.training_batch(7, 5 + one.batches_in_pass))


def test_batches_cost_about_the_same(pairs):
    buckets = Buckets(pairs, 32, 4)
    sizes = [b.shape.rows * (b.shape.source + b.shape.target) for b in buckets.buckets]
    assert max(sizes) < 2 * min(sizes)
    assert buckets.batches_in_pass == pytest.approx(500 / 32, abs=3)


def test_pairs_that_are_too_long_are_skipped():
    ids, sentences = made(200, seed=4)
    pairs = Pairs(ids, END, max_len=8, start_id=START)
    short = [max(len(s), len(t)) + 1 <= 8 for s, t in sentences]
    np.testing.assert_array_equal(pairs.fits, short)
    assert 0 < sum(short) < 200
    rows = [row for batch in Buckets(pairs, 10, 2).once() for row in rows_of(batch)]
    assert len(rows) == sum(short)


def test_too_few_pairs(pairs):
    with pytest.raises(UserError, match=r"^p.tsv: 500 pairs.*training.batch_size = 501"):
        Buckets(pairs, 501, 2, "p.tsv")


def test_a_pass_is_not_ordered_by_length(pairs):
    buckets = Buckets(pairs, 16, 3)
    widths = [buckets.batch_indices(0, step)[1].source for step in range(buckets.batches_in_pass)]
    assert widths != sorted(widths)
    pairs_of_pass = [buckets.batch_indices(0, step)[0].tolist() for step in range(len(widths))]
    other_pass = [
        buckets.batch_indices(0, step + len(widths))[0].tolist() for step in range(len(widths))
    ]
    assert {tuple(sorted(p)) for p in pairs_of_pass} != {tuple(sorted(p)) for p in other_pass}
