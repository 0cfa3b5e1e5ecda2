"""Writes the bundled dialogues, `data/dialogues.jsonl.zst`: questions about small worlds and their answers.

    python scripts/make_dialogues.py

The first question of a dialogue follows the facts of its world: what children have, where children and
animals are, how things are.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import zstandard

FILE = Path(__file__).resolve().parents[1] / "data" / "dialogues.jsonl.zst"
SEED, DIALOGUES = 0, 24_000


def _list(text: str) -> list[str]:
    return text.split(", ")


NAMES = _list(
    "Tom, Anna, Ben, Lily, Max, Mia, Sam, Zoe, Leo, Eva, Finn, Ida, Noah, Ella, Jack, Ruby, Paul, "
    "Nora, Oscar, Lucy, Hugo, Amy, Luke, Rose, Adam, Clara, Theo, Emma, Jonas, Alice, Felix, "
    "Julia, Oliver, Sara, David, Helen, Peter, Maria, Simon, Laura, Henry, Grace, Martin, Sophie, "
    "Victor, Hannah, Robin, Kate"
)
COUNTED = _list(
    "apples, pears, plums, books, coins, cards, keys, shells, stones, balls, cups, hats, pens, "
    "stamps, nuts, eggs, buttons, marbles, flowers, feathers"
)
SINGLE = _list(
    "kite, drum, boat, doll, lamp, bell, robot, puzzle, scarf, basket, ladder, bucket, whistle, "
    "candle"
)
COLORS = _list("red, blue, green, yellow, white, black, brown, pink")
ANIMALS = _list("cat, dog, rabbit, mouse, parrot, hamster, turtle, pony, goat, hen")
PLACES = _list(
    "under the table, on the chair, in the garden, behind the door, in the kitchen, on the roof, "
    "near the pond, under the bed, in the barn, on the stairs, behind the tree, in the box, near "
    "the gate, on the sofa"
)
NUMBERS = _list(
    "zero, one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, "
    "fourteen, fifteen, sixteen, seventeen, eighteen"
)
# A thing, and two opposites of which one describes it.
STATES = [
    ("soup", "hot", "cold"),
    ("box", "full", "empty"),
    ("door", "open", "closed"),
    ("bag", "heavy", "light"),
    ("floor", "wet", "dry"),
    ("street", "long", "short"),
    ("house", "big", "small"),
    ("room", "dark", "bright"),
    ("shirt", "clean", "dirty"),
    ("bread", "hard", "soft"),
    ("car", "fast", "slow"),
    ("coat", "old", "new"),
    ("music", "loud", "quiet"),
    ("river", "deep", "shallow"),
    ("wall", "high", "low"),
    ("rope", "thick", "thin"),
    ("path", "wide", "narrow"),
    ("knife", "sharp", "blunt"),
]
OPPOSITES = {a: b for _, first, second in STATES for a, b in ((first, second), (second, first))}

# The share of questions that need no fact.
GENERAL = 0.05


class World:
    """A few facts, and questions about them.

    Args:
      rng: draws the facts and the questions.
      size: how many facts are drawn; those that contradict an earlier one are left out.
    Attributes:
      facts: sentences.
    """

    def __init__(self, rng: random.Random, size: int) -> None:
        self._rng = rng
        names = rng.sample(NAMES, 3)
        # Child → thing and number; thing → child and color; child or animal → place; thing → state.
        self._counts: dict[str, tuple[str, int]] = {}
        self._colored: dict[str, tuple[str, str]] = {}
        self._places: dict[str, str] = {}
        self._states: dict[str, str] = {}
        self.facts: list[str] = []
        for _ in range(size):
            kind, name = rng.choice(("count", "count", "color", "animal", "child", "state")), ""
            if kind in ("count", "color", "child"):
                name = rng.choice(names)
            elif kind == "animal":
                name = f"the {rng.choice(ANIMALS)}"
            self._add(kind, name)
        rng.shuffle(self.facts)

    def _add(self, kind: str, name: str) -> None:
        """Draws a fact of a kind about a child or an animal."""
        rng = self._rng
        if kind == "count" and name not in self._counts:
            # Half of the things are those that another child has, so that numbers can be compared.
            things = sorted({thing for thing, _ in self._counts.values()})
            thing = rng.choice(things if things and rng.random() < 0.5 else COUNTED)
            self._counts[name] = thing, rng.randint(2, 9)
            self.facts.append(f"{name} has {NUMBERS[self._counts[name][1]]} {thing}.")
        elif kind == "color" and (thing := rng.choice(SINGLE)) not in self._colored:
            self._colored[thing] = name, rng.choice(COLORS)
            self.facts.append(f"{name} has a {self._colored[thing][1]} {thing}.")
        elif kind in ("animal", "child") and name not in self._places:
            self._places[name] = rng.choice(PLACES)
            self.facts.append(f"{_capitalized(name)} is {self._places[name]}.")
        elif kind == "state":
            thing, *states = rng.choice(STATES)
            if thing not in self._states:
                self._states[thing] = rng.choice(states)
                self.facts.append(f"The {thing} is {self._states[thing]}.")

    def question(self) -> tuple[str, str]:
        """Returns a question and its answer."""
        rng = self._rng
        if rng.random() < GENERAL:
            word = rng.choice(list(OPPOSITES))
            return (
                f"What is the opposite of {word}?",
                f"The opposite of {word} is {OPPOSITES[word]}.",
            )
        shared = self._shared()
        about = {
            self._about_count: bool(self._counts),
            self._about_shared: bool(shared),
            self._about_color: bool(self._colored),
            self._about_place: bool(self._places),
            self._about_state: bool(self._states),
        }
        return rng.choice([ask for ask, is_possible in about.items() if is_possible])()

    def _shared(self) -> list[list[str]]:
        """Returns the children that have the same thing, two or three of them."""
        owners: dict[str, list[str]] = {}
        for name, (thing, _) in self._counts.items():
            owners.setdefault(thing, []).append(name)
        return [names for names in owners.values() if len(names) > 1]

    def _about_count(self) -> tuple[str, str]:
        name = self._rng.choice(list(self._counts))
        thing, number = self._counts[name]
        fact = f"{name} has {NUMBERS[number]} {thing}."
        asked = self._rng.choice([number, self._rng.randint(2, 9)])
        questions = [
            f"How many {thing} does {name} have?",
            f"Does {name} have {NUMBERS[asked]} {thing}?",
        ]
        if [thing for thing, _ in self._counts.values()].count(thing) == 1:
            questions.append(f"Who has {thing}?")
        question = self._rng.choice(questions)
        return question, _yes_or_no(asked == number, fact) if question.startswith("Does") else fact

    def _about_shared(self) -> tuple[str, str]:
        first, second = self._rng.sample(self._rng.choice(self._shared()), 2)
        (thing, number), (_, other) = self._counts[first], self._counts[second]
        facts = f"{first} has {NUMBERS[number]} and {second} has {NUMBERS[other]}"
        if self._rng.random() < 0.5:
            question = f"How many {thing} do {first} and {second} have together?"
            return question, f"{facts}, so they have {NUMBERS[number + other]} {thing}."
        more = first if number > other else second
        end = f"{more} has more {thing}" if number != other else f"both have as many {thing}"
        return f"Who has more {thing}, {first} or {second}?", f"{facts}, so {end}."

    def _about_color(self) -> tuple[str, str]:
        thing = self._rng.choice(list(self._colored))
        name, color = self._colored[thing]
        asked = self._rng.choice([color, self._rng.choice(COLORS)])
        return self._rng.choice(
            [
                (f"Who has the {thing}?", f"{name} has the {color} {thing}."),
                (f"What color is the {thing}?", f"The {thing} is {color}."),
                (
                    f"Is the {thing} {asked}?",
                    _yes_or_no(asked == color, f"The {thing} is {color}."),
                ),
            ]
        )

    def _about_place(self) -> tuple[str, str]:
        name = self._rng.choice(list(self._places))
        place = self._places[name]
        fact = f"{_capitalized(name)} is {place}."
        asked = self._rng.choice([place, self._rng.choice(PLACES)])
        answer = _yes_or_no(asked == place, fact)
        return self._rng.choice([(f"Where is {name}?", fact), (f"Is {name} {asked}?", answer)])

    def _about_state(self) -> tuple[str, str]:
        thing = self._rng.choice(list(self._states))
        state = self._states[thing]
        asked = self._rng.choice([state, OPPOSITES[state]])
        return f"Is the {thing} {asked}?", _yes_or_no(asked == state, f"The {thing} is {state}.")


def _yes_or_no(is_right: bool, fact: str) -> str:
    # The fact comes first: a model then compares what it has written.
    return f"{fact[:-1]}, so {'yes' if is_right else 'no'}."


def _capitalized(name: str) -> str:
    return name[0].upper() + name[1:]


def dialogue(rng: random.Random) -> list[dict[str, str]]:
    """Returns the messages of a dialogue: one to six different questions about a world."""
    world = World(rng, rng.randint(1, 5))
    questions = dict(world.question() for _ in range(rng.randint(1, 6)))
    facts = " ".join(world.facts)
    messages: list[dict[str, str]] = []
    for question, answer in questions.items():
        asked = question if messages else f"{facts} {question}"
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": answer})
    return messages


def dialogues() -> Iterator[list[dict[str, str]]]:
    """Yields the bundled dialogues."""
    rng = random.Random(SEED)
    return (dialogue(rng) for _ in range(DIALOGUES))


def main() -> None:
    lines = [json.dumps({"messages": messages}) + "\n" for messages in dialogues()]
    text = "".join(lines).encode("ascii")
    FILE.write_bytes(zstandard.ZstdCompressor(level=19).compress(text))
    print(f"{FILE}: {len(lines):,} dialogues, {FILE.stat().st_size:,} bytes compressed")


if __name__ == "__main__":
    main()
