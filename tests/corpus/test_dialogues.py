"""Dialogues: the shapes that are read, what is wrong with a row, and the bundled ones."""

import json
import re

import pytest

from minigpt.corpus.dialogues import Dialogues, as_messages, document
from minigpt.errors import UserError

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
        ({"instruction": "i", "input": "", "output": "a"}, [("user", "i"), ("assistant", "a")]),
        (
            {"system": "s", "instruction": "i", "output": "a"},
            [("system", "s"), ("user", "i"), ("assistant", "a")],
        ),
    ],
)
def test_shapes_that_people_have(row, expected):
    messages = as_messages(document(row).decode())
    assert [(m["role"], m["content"]) for m in messages] == expected


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"text": "a"}, r"has the fields \[\'text\'\]; should have messages"),
        ({"messages": []}, "contains no answer"),
        ({"messages": [ASKED]}, "contains no answer"),
        ({"messages": ["a", ASKED]}, "message 1: should be an object"),
        ({"messages": [ANSWERED]}, "message 1: role = 'assistant'"),
        ({"messages": [ASKED, ASKED, ANSWERED]}, "message 2: role = 'user'"),
        ({"messages": [{"role": "user", "content": ""}, ANSWERED]}, "message 1: is empty"),
        ({"messages": [{"role": "user", "content": None}, ANSWERED]}, "message 1: content"),
        ({"messages": [ASKED, {"role": "assistant", "content": ""}]}, "message 2: is empty"),
        ({"messages": [ASKED, {"role": "assistant", "content": " \n"}]}, "message 2: is empty"),
        (
            {"messages": [ASKED, {"role": "assistant", "content": "a\0"}]},
            "message 2: contains a NUL",
        ),
        ({"messages": "a"}, "'messages' should be a list"),
        ({"conversations": None}, "'conversations' should be a list"),
        ({"instruction": 3, "output": "a"}, "'input' and 'output' should be strings"),
        ({"instruction": "i", "output": None}, "'input' and 'output' should be strings"),
        ({"instruction": "i", "input": 3, "output": "a"}, "should be strings"),
        ({"messages": [{"role": "user", "content": "\ud800"}, ANSWERED]}, "surrogate"),
        ({"messages": [{"role": "user", "content": "a" * 10**6}, ANSWERED]}, "1,000,000 bytes"),
    ],
)
def test_rows_of_another_shape_are_refused(row, problem):
    with pytest.raises(UserError, match=problem):
        document(row)


def test_all_problems_of_a_file_are_reported_together(tmp_path):
    file = tmp_path / "a.jsonl"
    good = json.dumps({"messages": [ASKED, ANSWERED]})
    file.write_text(f'{good}\n{{"text": "a"}}\nnothing\n{{"messages": [3]}}\n{{"text": "b"}}\n')
    text = tmp_path / "b.txt"
    text.write_text("a")
    with pytest.raises(UserError) as caught:
        list(Dialogues([str(file), str(text)]).pieces())
    found = [problem.removeprefix(f"{tmp_path}/") for problem in caught.value.problems]
    assert [problem[:31] for problem in found] == [
        "a.jsonl: row 2 and 1 more row: ",
        "a.jsonl: row 3: not valid JSON:",
        "a.jsonl: row 4: message 1: shou",
        "b.txt: should be a file with ro",
    ]


def test_rows_with_different_values_are_one_kind_of_problem(tmp_path):
    file = tmp_path / "a.jsonl"
    roles = [{"messages": [{"role": f"r{n}", "content": "q"}, ANSWERED]} for n in range(5000)]
    later = [{"messages": [ASKED, {"role": f"r{n}" * 99, "content": "a"}]} for n in range(9)]
    fields = [{f"{n}-{name}": "a" for name in range(99)} for n in range(5000)]
    values = ["a", 3]
    rows = [*roles, *later, *fields, *values]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError) as caught:
        list(Dialogues([str(file)]).pieces())
    shapes = (
        "messages (objects with role and content), conversations (objects with from and value), "
    )
    shapes += "or instruction and output"
    assert [problem.removeprefix(f"{file}: ") for problem in caught.value.problems] == [
        "row 1 and 5,008 more rows: message 1: role = 'r0': should be system, user or assistant",
        "row 5,010 and 4,999 more rows: has the fields ['0-0', '0-1', '0-2', '0-3', '0-4', '0-5', ...]; "
        f"should have {shapes}",
        f"row 10,010 and 1 more row: should be an object with {shapes}: 'a'",
    ]


def expected_answer(facts: str, question: str) -> str | None:
    """Answers some kinds of questions from the sentences, without the program that wrote them."""
    if found := re.fullmatch(r"How many (\w+) does (\w+) have\?", question):
        return re.search(rf"{found[2]} has \w+ {found[1]}\.", facts)[0]
    if found := re.fullmatch(r"Where is (.+)\?", question):
        return re.search(rf"(?i:{found[1]}) is (?:in|on|under|behind|near) [\w ]+\.", facts)[0]
    if found := re.fullmatch(r"What color is the (\w+)\?", question):
        color = re.search(rf"has a (\w+) {found[1]}\.", facts)[1]
        return f"The {found[1]} is {color}."
    if found := re.fullmatch(r"Does (\w+) have (\w+) (\w+)\?", question):
        fact = re.search(rf"{found[1]} has (\w+) {found[3]}\.", facts)
        return f"{fact[0][:-1]}, so {'yes' if fact[1] == found[2] else 'no'}."
    if found := re.fullmatch(r"How many (\w+) do (\w+) and (\w+) have together\?", question):
        numbers = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
        counts = [
            numbers.index(re.search(rf"{name} has (\w+) {found[1]}\.", facts)[1])
            for name in found.group(2, 3)
        ]
        words = [
            *numbers,
            *["ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"],
        ]
        return f"so they have {[*words, 'eighteen'][sum(counts)]} {found[1]}."
    return None


def test_answers_of_the_bundled_dialogues_are_right():
    checked = dialogues = 0
    for piece in Dialogues([]).pieces():
        messages = as_messages(piece.text.decode())
        dialogues += 1
        first = messages[0]["content"]
        facts = first[: first.rindex(". ") + 1]
        for asked, answered in zip(messages[::2], messages[1::2], strict=True):
            question = asked["content"].removeprefix(f"{facts} ")
            if (answer := expected_answer(facts, question)) is not None:
                assert answered["content"].endswith(answer), (facts, question)
                checked += 1
    assert dialogues == 24_000
    assert checked > 20_000
