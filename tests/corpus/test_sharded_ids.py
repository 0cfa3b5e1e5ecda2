"""Ids in several arrays read as those in one."""

import numpy as np
import pytest

from minigpt.corpus.batches import eval_windows, training_batch
from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.sharded_ids import ShardedIds, positions_of

IDS = np.random.default_rng(0).integers(0, 9, 101).astype(np.uint16)


def divided(*cuts):
    return ShardedIds(np.split(IDS, cuts))


SHARDED = [divided(40), divided(1, 2, 50), divided(0, 30, 30, 101), divided(*range(1, 101))]


@pytest.mark.parametrize("ids", SHARDED, ids=["two", "four", "empty", "single"])
def test_every_index_and_slice(ids):
    assert (len(ids), ids.shape, ids.size, ids.ndim) == (101, (101,), 101, 1)
    assert (ids.dtype, ids.nbytes) == (np.uint16, IDS.nbytes)
    for start in [None, *range(-103, 104, 3)]:
        for stop in [None, *range(-103, 104, 3)]:
            found = ids[start:stop]
            np.testing.assert_array_equal(found, IDS[start:stop])
            assert len(found) == len(IDS[start:stop])
            np.testing.assert_array_equal(found[1:-1], IDS[start:stop][1:-1])
    np.testing.assert_array_equal(ids[::7], IDS[::7])
    np.testing.assert_array_equal(ids[::-1], IDS[::-1])
    assert [ids[n] for n in range(-101, 101)] == [IDS[n] for n in range(-101, 101)]
    assert isinstance(ids[0], np.uint16)
    for wrong in (101, -102, np.array([3, 101])):
        with pytest.raises(IndexError):
            ids[wrong]


@pytest.mark.parametrize("ids", SHARDED, ids=["two", "four", "empty", "single"])
def test_arrays_of_indices(ids):
    for shape in [(0,), (1,), (7,), (3, 4)]:
        indices = np.random.default_rng(1).integers(-101, 101, shape)
        found = ids[indices]
        np.testing.assert_array_equal(found, IDS[indices])
        assert found.dtype == np.uint16 and found.shape == shape
    np.testing.assert_array_equal(ids[IDS == 3], IDS[IDS == 3])
    with pytest.raises(TypeError):
        ids[np.array([0.5])]


@pytest.mark.parametrize("ids", SHARDED, ids=["two", "four", "empty", "single"])
def test_conversions_and_comparisons(ids):
    np.testing.assert_array_equal(np.asarray(ids), IDS)
    assert np.asarray(ids, np.int64).dtype == ids.astype(np.int64).dtype == np.int64
    np.testing.assert_array_equal(ids.view(np.ndarray)[1:].astype(np.int32), IDS[1:])
    np.testing.assert_array_equal(ids == 3, IDS == 3)
    np.testing.assert_array_equal(ids != 3, IDS != 3)
    np.testing.assert_array_equal(np.bincount(ids), np.bincount(IDS))
    np.testing.assert_array_equal(np.flatnonzero(ids == 3), np.flatnonzero(IDS == 3))
    np.testing.assert_array_equal(positions_of(ids, 3), positions_of(IDS, 3))
    target = np.zeros(50, np.int32)
    target[:20] = ids[30:50]
    np.testing.assert_array_equal(target[:20], IDS[30:50])


def test_a_slice_within_a_shard_is_a_view_of_it():
    shards = np.split(IDS.copy(), [40])
    ids = ShardedIds(shards)
    for piece in (ids[3:40], ids[40:90], ids[0:40]):
        assert isinstance(piece, np.ndarray) and any(np.shares_memory(piece, x) for x in shards)
    whole = ids[1:]
    assert isinstance(whole, ShardedIds)
    assert all(np.shares_memory(a, b) for a, b in zip(whole.shards, shards, strict=True))


@pytest.mark.parametrize("ids", SHARDED, ids=["two", "four", "empty", "single"])
def test_batches(ids):
    for step in range(30):
        for found, expected in zip(
            training_batch(ids, 7, 5, 3, step), training_batch(IDS, 7, 5, 3, step), strict=True
        ):
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype
    for found, expected in zip(eval_windows(ids, 7, 3), eval_windows(IDS, 7, 3), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_pairs():
    plain = np.array([0, 1, 2, 0, 3, 0, 4, 0, 5, 6, 0], np.uint16)
    for cut in range(len(plain)):
        pairs, expected = Pairs(ShardedIds(np.split(plain, [cut])), 0, 3), Pairs(plain, 0, 3)
        assert len(pairs) == len(expected) == 2
        for index in range(2):
            assert pairs.source(index).tolist() == expected.source(index).tolist()
            assert pairs.target(index).tolist() == expected.target(index).tolist()
