"""Counts the right answers of a model of the bundled dialogues to questions about other worlds.

    python scripts/measure_dialogue_answers.py FILE.gguf

Each of 500 questions is one of a dialogue that `make_dialogues` makes with another seed, after the right
answers to the questions before it. Dialogues whose facts are in the bundled ones are left out. An answer is
right if it is the expected one, letter by letter.
"""

import random
import sys
from collections import Counter

from make_dialogues import SEED, dialogue, dialogues

import minigpt

QUESTIONS = 500


def facts_of(messages: list[dict[str, str]]) -> str:
    """Returns the facts, which precede the first question."""
    return messages[0]["content"].rpartition(". ")[0]


def questions(count: int) -> list[tuple[list[dict[str, str]], str]]:
    """Returns messages that end with a question, and the right answer."""
    known = set(map(facts_of, dialogues()))
    rng = random.Random(SEED + 1)
    found: list[tuple[list[dict[str, str]], str]] = []
    while len(found) < count:
        messages = dialogue(rng)
        last = 2 * rng.randrange(len(messages) // 2)
        if facts_of(messages) not in known:
            found.append((messages[: last + 1], messages[last + 1]["content"]))
    return found


def first_word(messages: list[dict[str, str]]) -> str:
    """Returns the first word of the last question."""
    return messages[-1]["content"].split(". ")[-1].split()[0]


def main() -> None:
    (path,) = sys.argv[1:]
    try:
        model = minigpt.load_portable(path)
    except minigpt.UserError as error:
        sys.exit(str(error))
    assert isinstance(model, minigpt.PortableTextModel), "should be a file of dialogues"
    right, asked, wrong = Counter[str](), Counter[str](), []
    for messages, expected in questions(QUESTIONS):
        answer = model.chat(messages, temperature=0.0, top_k=0)
        kind = first_word(messages)
        asked[kind] += 1
        right[kind] += answer == expected
        if answer != expected:
            wrong.append((messages[-1]["content"], answer, expected))
    for question, answer, expected in wrong[:5]:
        print(f"Q: {question}\n   {answer}\n   expected: {expected}")
    for kind, count in asked.most_common():
        print(f"{kind:6} {right[kind]:4} of {count}")
    print(f"{right.total()} of {asked.total()} answers are right")


if __name__ == "__main__":
    main()
