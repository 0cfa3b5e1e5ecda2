"""Packed dialogues: each answer is learned once, nothing else is, and dialogues stay apart."""

from types import SimpleNamespace

import numpy as np
import pytest

from minigpt.corpus.dialogues import PackedDialogues, pack
from minigpt.tokenizers.chat_format import ChatFormat

END = 0
# One token for each role, as those that minigpt adds.
ROLES = ChatFormat(
    {"system": (1,), "user": (2,), "assistant": (3,)},
    {"system": (), "user": (), "assistant": (END,)},
    "",
)
# Several tokens around each message, as in Qwen3.
MARKED = ChatFormat(
    {"system": (4, 1, 5), "user": (4, 2, 5), "assistant": (4, 3, 5)},
    dict.fromkeys(("system", "user", "assistant"), (END, 5)),
    "",
)


def dialogue(chat: ChatFormat, *sizes: int, start: int = 10) -> list[int]:
    """The ids of questions and answers in turn, of these sizes, whose texts are different tokens."""
    ids = []
    for number, size in enumerate(sizes):
        role = "assistant" if number % 2 else "user"
        ids += [*chat.before[role], *range(start, start + size), *chat.after[role]]
        start += size
    return ids


def packed(chat: ChatFormat, dialogues: list[list[int]], length: int, loss_on="answers"):
    ids = [END]
    for each in dialogues:
        ids += [*each, END]
    tokenizer = SimpleNamespace(chat=chat, end_id=END)
    return PackedDialogues(np.array(ids, np.uint16), tokenizer, length, loss_on)


def learned(found: PackedDialogues, rows=None) -> list[int]:
    """The targets that have a weight, of all rows, sorted."""
    targets = []
    for _, batch_targets, weights in found.once(2):
        targets += batch_targets[weights > 0].tolist()
    return sorted(targets)


@pytest.mark.parametrize("chat", [ROLES, MARKED])
def test_the_tokens_of_answers_and_what_ends_them_are_learned(chat):
    first, second = dialogue(chat, 3, 2, 1, 4), dialogue(chat, 2, 1, start=50)
    found = packed(chat, [first, second], 32)
    assert learned(found) == [END, END, END, 13, 14, 16, 17, 18, 19, 52]
    np.testing.assert_array_equal(
        found.target_counts(60), np.bincount(learned(found), minlength=60)
    )


@pytest.mark.parametrize("chat", [ROLES, MARKED])
def test_all_tokens_are_learned_if_that_is_asked(chat):
    first, second = dialogue(chat, 3, 2), dialogue(chat, 2, 1, start=50)
    found = packed(chat, [first, second], 32, "all")
    # The first token of a dialogue is not a target.
    assert learned(found) == sorted(first[1:] + second[1:])
    np.testing.assert_array_equal(
        found.target_counts(60), np.bincount(learned(found), minlength=60)
    )


@pytest.mark.parametrize("chat", [ROLES, MARKED])
def test_rows_hold_whole_dialogues_and_say_where_they_begin(chat):
    dialogues = [dialogue(chat, 2 + i % 3, 1 + i % 4, start=10 + 20 * i) for i in range(9)]
    found = packed(chat, dialogues, 40)
    seen = []
    for (ids, starts), targets, weights in found.once(2):
        for row in range(len(ids)):
            for start in np.unique(starts[row]):
                part = starts[row] == start
                if not weights[row, part].any():
                    continue  # Padding.
                assert part.argmax() == start
                whole = [*ids[row, part].tolist(), targets[row, part][-1]]
                seen.append(whole)
                assert targets[row, part][:-1].tolist() == whole[1:-1]
    assert sorted(seen) == sorted(dialogues)


def test_a_long_dialogue_is_divided_between_turns():
    long = dialogue(ROLES, 3, 2, 3, 2, 3, 2)
    turn = len(long) // 3
    found = packed(ROLES, [dialogue(ROLES, 1, 1, start=90), long], 2 * turn)
    spans = found.spans
    assert (spans[:, 1] - spans[:, 0]).tolist() == [5, 2 * turn, turn]
    assert (found.divided, found.left_out) == (1, 0)
    # A turn that does not fit is left out.
    found = packed(ROLES, [dialogue(ROLES, 3, 2, 30, 2, 3, 2)], 2 * turn)
    assert (found.divided, found.left_out) == (1, 35)
    assert learned(found) == [END, END, 13, 14, 50, 51]
    np.testing.assert_array_equal(
        found.target_counts(60), np.bincount(learned(found), minlength=60)
    )


def test_batches_depend_on_seed_and_step_only_and_a_pass_has_every_row():
    found = packed(ROLES, [dialogue(ROLES, 3, 2, start=10 + 5 * i) for i in range(12)], 16)
    rows = len(found.rows)
    assert rows == 6  # Two of eight tokens fit into a row.

    def drawn(seed, steps):
        return [found.training_batch(2, seed, step) for step in steps]

    first, again = drawn(1, range(3)), drawn(1, (0, 1, 2))
    for batch, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(batch[1], other[1])
    targets = np.concatenate([batch[1] for batch in first])
    assert len(np.unique(targets, axis=0)) == rows
    second = np.concatenate([batch[1] for batch in drawn(1, range(3, 6))])
    assert sorted(map(tuple, targets)) == sorted(map(tuple, second))
    assert targets.tolist() != second.tolist()


def test_questions_are_different_ones():
    first, second, third = (dialogue(ROLES, 3, 2, start=start) for start in (10, 30, 50))
    found = packed(ROLES, [first, first, second, first, third], 16)
    asked = [question.tolist() for question in found.questions(3)]
    # Up to the answer: the token of its role, too.
    assert asked == [each[:5] for each in (first, second, third)]
    assert len(found.questions(2)) == 2 and len(found.questions(4)) == 3


def test_packing_is_tight():
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 20, 500)
    rows = pack(lengths, 64)
    assert sorted(index for row in rows for index in row) == list(range(500))
    assert all(lengths[row].sum() <= 64 for row in rows)
    assert len(rows) <= 1.02 * lengths.sum() / 64 + 1
