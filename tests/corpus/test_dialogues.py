"""Dialogues: the shapes that are read, what is wrong with a row, and the bundled ones."""

import re

import pytest

from minigpt.corpus.dialogues import Dialogues, as_messages, document

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


@pytest.mark.slow
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
