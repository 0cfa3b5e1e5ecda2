"""A batch is a pure function of (seed, step)."""

import numpy as np
import pytest

from minigpt.corpus import batches
from minigpt.corpus.batches import (
    check_fills_batch,
    eval_windows,
    training_batch,
    windows_in_pass,
)
from minigpt.errors import UserError

# Ids equal their positions, so a window shows where it was taken.
IDS = np.arange(1001, dtype=np.uint16)
T, B = 7, 5


def collect(seed, first_step, steps, ids=IDS, batch_size=B):
    numbers = range(first_step, first_step + steps)
    return np.array([training_batch(ids, T, batch_size, seed, number) for number in numbers])


@pytest.mark.parametrize("n_tokens", [34, 41, 500, 1000])
def test_every_window_once_a_pass(n_tokens):
    windows = windows_in_pass(n_tokens, T)
    ids = IDS[: n_tokens + 1]
    passes = 6
    rows = np.concatenate([training_batch(ids, T, B, 3, step)[0] for step in range(windows)])
    rows = np.concatenate(
        [rows]
        + [training_batch(ids, T, B, 3, windows + step)[0] for step in range(windows * passes // B)]
    )
    offsets, orders = set(), set()
    for index in range(passes):
        starts = rows[index * windows : (index + 1) * windows, 0]
        positions = np.sort(starts)
        np.testing.assert_array_equal(positions, positions[0] + T * np.arange(windows))
        assert 0 <= positions[0] < T
        offsets.add(int(positions[0]))
        orders.add(tuple((starts - positions[0]).tolist()))
    assert len(offsets) > 1 and len(orders) == passes


def test_batches_depend_only_on_seed_and_step():
    whole = collect(1, 0, 80)
    for first in (1, 27, 28, 79):
        batches._pass_order.cache_clear()
        np.testing.assert_array_equal(collect(1, first, 80 - first), whole[first:])
    assert (collect(2, 0, 80) != whole).any()
    # The batch size does not change the sequence of windows.
    np.testing.assert_array_equal(
        collect(1, 0, 40, batch_size=2 * B).swapaxes(0, 1).reshape(2, -1, T),
        whole.swapaxes(0, 1).reshape(2, -1, T),
    )


def test_batches_never_change():
    # Recorded: resumed runs need the same batches from every version of NumPy and of this program.
    assert training_batch(IDS, T, B, 0, 0)[0][:, 0].tolist() == [70, 637, 784, 14, 133]


def test_a_text_that_is_too_short():
    needed = (B + 1) * T - 1
    check_fills_batch(needed, T, B)
    assert len(collect(0, 0, 1, IDS[: needed + 1])) == 1
    with pytest.raises(UserError, match=rf"{needed - 1} tokens.*batch_size.*at least {needed}"):
        check_fills_batch(needed - 1, T, B)


@pytest.mark.parametrize("n_tokens", [0, 1, 6, 7, 8, 35, 36, 1000])
def test_evaluation_sees_every_target_once(n_tokens):
    windows = list(eval_windows(IDS[: n_tokens + 1], T, B))
    assert len(windows) == -(-n_tokens // (T * B))
    seen = []
    for inputs, targets, weights in windows:
        assert inputs.shape == targets.shape == weights.shape == (B, T)
        assert (inputs.dtype, targets.dtype, weights.dtype) == (np.int32, np.int32, np.float32)
        np.testing.assert_array_equal(targets[weights == 1], inputs[weights == 1] + 1)
        assert not inputs[weights == 0].any() and set(np.unique(weights)) <= {0, 1}
        seen += targets[weights == 1].tolist()
    assert seen == list(range(1, n_tokens + 1))


@pytest.mark.parametrize("stride", range(1, T + 1))
@pytest.mark.parametrize("n_tokens", [0, 1, T - 1, T, T + 1, 50])
def test_overlapping_windows_count_every_target_with_the_most_tokens_before_it(n_tokens, stride):
    seen = []
    for inputs, targets, weights in eval_windows(IDS[: n_tokens + 1], T, B, stride):
        for row in range(B):
            for place in np.flatnonzero(weights[row]):
                seen.append(target := int(targets[row, place]))
                before = inputs[row, : place + 1].tolist()
                assert before == list(range(target - place - 1, target))
                assert len(before) == target or len(before) > T - stride
    assert seen == list(range(1, n_tokens + 1))
