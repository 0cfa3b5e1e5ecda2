"""A permutation that is computed is one, looks random, and does not change."""

import time

import numpy as np
import pytest

from minigpt.corpus import batches
from minigpt.corpus.batches import KEYS, Permutation, training_batch, windows_in_pass

SIZES = [*range(1, 40), 255, 256, 257, 1000, 4095, 4096, 4097, 100_003]


def permutation(size, seed=0):
    return Permutation(size, np.random.PCG64(seed).random_raw(KEYS))


@pytest.mark.parametrize("size", SIZES)
def test_every_number_once(size):
    for seed in range(3):
        whole = permutation(size, seed)[:]
        assert whole.dtype == np.int64 and len(permutation(size, seed)) == size
        np.testing.assert_array_equal(np.sort(whole), np.arange(size))


def test_a_pure_function_of_keys_and_position():
    whole = permutation(1000)[:]
    np.testing.assert_array_equal(permutation(1000)[300:400], whole[300:400])
    positions = np.array([[7, 999], [0, 7]])
    np.testing.assert_array_equal(permutation(1000)[positions.ravel()], whole[positions.ravel()])
    assert (permutation(1000, 1)[:] != whole).mean() > 0.98
    # Recorded: resumed runs need the same batches from every version.
    assert permutation(10**9)[:3].tolist() == [945629146, 518170752, 64630893]


def test_it_is_balanced():
    size, parts = 300_000, 30
    whole = permutation(size)[:]
    # Every tenth of the positions has numbers of every part of the text, as often as by chance.
    for block in np.split(whole, 10):
        counts = np.bincount(block * parts // size, minlength=parts)
        expected = len(block) / parts
        assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)
    assert abs(np.corrcoef(np.arange(size), whole)[0, 1]) < 0.01
    assert abs(np.corrcoef(whole[:-1], whole[1:])[0, 1]) < 0.01
    # Neighbors are as far apart as two random numbers: a third of the size.
    assert abs(np.abs(np.diff(whole)).mean() / size - 1 / 3) < 0.01


@pytest.mark.parametrize("size", [0, 2**62 + 1])
def test_impossible_sizes(size):
    with pytest.raises(ValueError, match="size"):
        permutation(size)


def test_a_batch_of_a_terabyte_takes_no_time_and_no_memory():
    order = permutation(240_000_000)
    seconds = []
    for step in range(20):
        began = time.process_time()
        order[64 * step : 64 * step + 64]
        seconds.append(time.process_time() - began)
    # It takes about 0.3 ms; sorting all windows would take half a minute.
    assert np.median(seconds) < 0.02


def test_passes_of_a_large_text(monkeypatch):
    monkeypatch.setattr(batches, "MAX_STORED_ORDER", 10)
    batches._pass_order.cache_clear()
    length, rows = 7, 5
    ids = np.arange(1001, dtype=np.uint16)
    windows = windows_in_pass(1000, length)
    passes = []
    for number in range(3):
        steps = [training_batch(ids, length, 1, 3, number * windows + n) for n in range(windows)]
        starts = np.array([inputs[0, 0] for inputs, _ in steps])
        np.testing.assert_array_equal(np.sort(starts), starts.min() + length * np.arange(windows))
        passes.append(tuple(starts))
    assert len(set(passes)) == 3
    # The batch size does not change the sequence of windows, also where a batch spans two passes.
    sequence = np.concatenate(passes)
    for step in range(len(sequence) // rows):
        inputs, _ = training_batch(ids, length, rows, 3, step)
        np.testing.assert_array_equal(inputs[:, 0], sequence[rows * step :][:rows])
    batches._pass_order.cache_clear()


def test_the_order_of_smaller_texts_is_stored():
    assert isinstance(batches._pass_order(0, 0, 1000)[1], np.ndarray)
    assert isinstance(batches._pass_order(0, 0, 2**24 + 1)[1], Permutation)
