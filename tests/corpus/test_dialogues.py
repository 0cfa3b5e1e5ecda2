"""Dialogues: the shapes that are read, what is wrong with a row, and the bundled ones."""

import json

import pytest

from minigpt.config.loading import load_new_config
from minigpt.corpus.dialogues import document
from minigpt.errors import UserError
from minigpt.training.start import complete_settings

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


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [ASKED, ANSWERED]},
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
        {"instruction": "q", "input": "", "output": "a"},
        {"ticket": 1, "question": "q", "answer": "a"},
        {"prompt": "q", "completion": "a"},
    ],
)
def test_rows_of_dialogues_are_recognized(row, tmp_path, messages):
    file, book = tmp_path / "a.jsonl", tmp_path / "book.txt"
    line = json.dumps(row) + "\n"
    file.write_text("".join(line.replace('"q"', f'"q {n}"') for n in range(40)))

    def source(*paths, **more):
        settings = [f"data.{name}={value}" for name, value in more.items()]
        config = load_new_config(None, settings, [str(path) for path in paths])
        return complete_settings(config, measures_speed=False)[0].config.data.source

    assert source(file) == source(tmp_path) == "dialogues"
    assert any(line.startswith(f"{file}: dialogues") for line in messages())
    if "output" in row:
        assert source(file, field="instruction") == "files"
    book.write_text("Ana sat on the hill. " * 50)
    with pytest.raises(UserError, match=r"a\.jsonl.*data\.source"):
        source(file, book)
