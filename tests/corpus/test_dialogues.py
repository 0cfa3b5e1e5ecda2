"""Dialogues: the shapes that are read, what is wrong with a row, and the bundled ones."""

import json

import pytest

from minigpt.corpus.dialogues import document

ASKED = {"role": "user", "content": "q"}
ANSWERED = {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"messages": [ASKED, ANSWERED]}, [("user", "q"), ("assistant", "a")]),
        (
            {"messages": [{"role": "developer", "content": "s"}, ASKED, ANSWERED]},
            [("system", "s"), ("user", "q"), ("assistant", "a")],
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": t} for t in "qr"]},
                    ANSWERED,
                ]
            },
            [("user", "qr"), ("assistant", "a")],
        ),
        # What follows the last answer is left out.
        ({"messages": [ASKED, ANSWERED, ASKED]}, [("user", "q"), ("assistant", "a")]),
        (
            {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
            [("user", "q"), ("assistant", "a")],
        ),
        (
            {"instruction": "i", "input": "q", "output": "a"},
            [("user", "i\n\nq"), ("assistant", "a")],
        ),
        (
            {"system": "s", "instruction": "i", "output": "a"},
            [("system", "s"), ("user", "i"), ("assistant", "a")],
        ),
    ],
)
def test_shapes_that_people_have(row, expected):
    assert [tuple(message) for message in json.loads(document(row))] == expected
