"""Writes the bundled dialogues, `data/dialogues.jsonl.zst`: questions about small worlds and their answers.

    python scripts/make_dialogues.py
    python scripts/make_dialogues.py --ask MODEL

With --ask, a model, such as a run, answers 500 questions about other worlds and 50 everyday questions, and
the shares of right answers are printed.

The first question of a dialogue follows the facts of its world: what children have, where children and
animals are, how things are. Some questions cannot be answered: the facts do not mention them, or they are
about everything else. Their answers say so.
"""

import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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

# The share of questions that need no fact, of those about things that the facts do not mention, and of
# those about everything else.
GENERAL, NOT_MENTIONED, EVERYDAY = 0.05, 0.07, 0.08
UNKNOWN = "I do not know that. I only know what you tell me."
MYSELF = "I am a small language model. I answer questions about what you tell me."
ABOUT_ME = [
    *("Who are you?", "What are you?", "What is your name?", "Are you a person?", "Are you human?"),
    *(
        "Are you a robot?",
        "Who made you?",
        "What can you do?",
        "Can you help me?",
        "Do you know me?",
    ),
    *(
        "How old are you?",
        "Where do you live?",
        "Hello!",
        "Hi!",
        "Good morning!",
        "Hello, who is there?",
    ),
    *("Tell me about yourself.", "What should I ask you?", "Do you like music?", "Are you happy?"),
    *("How do you work?", "What do you think?", "Can you talk?", "Are you there?", "Do you sleep?"),
]
TOPICS = _list(
    "France, the moon, the sun, Mars, the sea, the internet, Paris, London, gold, milk, bread, football, "
    "chess, the king, the president, the war, water, ice, winter, spring, Monday, dinner, coffee, tea, "
    "a tiger, an elephant, a whale, a bee, a computer, a phone, a train, a plane, a bridge, a castle, "
    "a poem, a song, a film, a novel, mathematics, history, physics, money, work, school, love, happiness, "
    "time, space, the weather, the news, a cake, rice, cheese, Berlin, Rome, China, the doctor, Shakespeare"
)
ACTIONS = _list(
    "cook rice, bake a cake, learn to swim, fix a bike, write a letter, grow tomatoes, catch a fish, "
    "paint a room, plan a trip, sleep better, find a job, save money, speak French, play chess, draw a "
    "horse, make tea, clean a window, train a dog, sing well, win a race, repair a phone, open a shop"
)
EVERYDAY_FORMS = _list(
    "What is {topic}?, Who is {topic}?, Where is {topic}?, Tell me about {topic}., Why is {topic} "
    "important?, What does {topic} look like?, How big is {topic}?, How old is {topic}?, When was {topic} "
    "invented?, What do you know about {topic}?, Do you like {topic}?, Is {topic} good?, Is {topic} "
    "expensive?, How much does {topic} cost?, Where can I find {topic}?, What color is {topic}?, Can you "
    "explain {topic}?, Who discovered {topic}?, What is the capital of {topic}?, Write a poem about "
    "{topic}., How far is {topic}?, Why do people like {topic}?, How do I {action}?, How can I "
    "{action}?, Can you {action}?, Should I {action}?, Why should I {action}?, What do I need to "
    "{action}?, When should I {action}?, Please {action}., Is it hard to {action}?, Who can {action}?"
)


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
        if not self.facts or rng.random() < EVERYDAY:
            if rng.random() < 0.3:
                return rng.choice(ABOUT_ME), MYSELF
            form = rng.choice(EVERYDAY_FORMS)
            return form.format(topic=rng.choice(TOPICS), action=rng.choice(ACTIONS)), UNKNOWN
        if rng.random() < NOT_MENTIONED:
            return self._not_mentioned(), UNKNOWN
        shared = self._shared()
        about = {
            self._about_count: bool(self._counts),
            self._about_shared: bool(shared),
            self._about_color: bool(self._colored),
            self._about_place: bool(self._places),
            self._about_state: bool(self._states),
        }
        return rng.choice([ask for ask, is_possible in about.items() if is_possible])()

    def _not_mentioned(self) -> str:
        """Returns a question that no fact answers."""
        rng, facts = self._rng, " ".join(self.facts)
        name = rng.choice([name for name in NAMES if name not in facts])
        animal = rng.choice([animal for animal in ANIMALS if animal not in facts])
        single = rng.choice([thing for thing in SINGLE if thing not in facts])
        counted = rng.choice([thing for thing in COUNTED if thing not in facts])
        state = rng.choice([state for state in STATES if state[0] not in facts])
        return rng.choice(
            [
                f"Where is {name}?",
                f"Where is the {animal}?",
                f"Who has the {single}?",
                f"What color is the {single}?",
                f"Who has {counted}?",
                f"How many {counted} does {rng.choice([name, *self._counts])} have?",
                f"Is the {state[0]} {rng.choice(state[1:])}?",
            ]
        )

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
    # A few dialogues are about nothing that was told.
    world = World(rng, rng.randint(1, 5) if rng.random() < 0.93 else 0)
    questions = dict(world.question() for _ in range(rng.randint(1, 6)))
    facts = " ".join(world.facts)
    messages: list[dict[str, str]] = []
    for question, answer in questions.items():
        asked = question if messages else f"{facts} {question}".strip()
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": answer})
    return messages


def dialogues() -> Iterator[list[dict[str, str]]]:
    """Yields the bundled dialogues."""
    rng = random.Random(SEED)
    return (dialogue(rng) for _ in range(DIALOGUES))


# Questions as people write them; none has a form of the questions above.
ASKED = """\
How are you today? Good evening. Do you speak German? What are you doing? Are you a computer program?
Who is your maker? Nice to meet you. May I ask you something? Do you have friends? What are you good at?
What time is it? What day is today? Will it rain tomorrow? How do birds fly? Why is the sky blue?
Who won the match yesterday? What should I cook tonight? How many legs does a spider have?
Where does the sun go at night? What is two plus two? Tell me a joke. Sing me something.
How tall is the highest mountain? Who wrote Hamlet? Which is the largest country?
What is the meaning of life?
How do planes stay up? Do fish sleep? What do cows drink? Is the earth round? Can pigs swim?
How long is a year? What comes after Friday? Who was the first man in space? Why do leaves fall?
Which animal is the fastest? How is glass made? What makes people laugh? Is it late? Are dogs clever?
Translate this into French. Give me some advice. What did you eat? Where were you born? How heavy is a car?
When does school start? Which way is the station? What is my name? Did you see my keys? How many people live
in London?"""


def ask(path: str) -> None:
    """Prints how many questions a model answers right."""
    import minigpt

    model: Any = minigpt.open_model(path)

    def answer(messages: list[dict[str, str]]) -> str:
        return str(model.chat(messages, temperature=0, max_new_tokens=40)).strip()

    rng, right = random.Random(SEED + 1), 0
    for _ in range(500):
        messages = dialogue(rng)
        turn = 2 * rng.randrange(len(messages) // 2) + 1
        right += answer(messages[:turn]) == messages[turn]["content"]
    print(f"questions about other worlds: {right} of 500")
    questions = re.findall(r".+?[.?](?=\s|$)", ASKED.replace("\n", " "))
    answers = [answer([{"role": "user", "content": question.strip()}]) for question in questions]
    known = sum(each in (UNKNOWN, MYSELF) for each in answers)
    print(f"everyday questions: {known} of {len(questions)}")
    for question, each in zip(questions, answers, strict=True):
        print(f"  {question.strip()} {each}")


def main() -> None:
    if sys.argv[1:2] == ["--ask"]:
        ask(sys.argv[2])
        return
    lines = [json.dumps({"messages": messages}) + "\n" for messages in dialogues()]
    text = "".join(lines).encode("ascii")
    FILE.write_bytes(zstandard.ZstdCompressor(level=19).compress(text))
    print(f"{FILE}: {len(lines):,} dialogues, {FILE.stat().st_size:,} bytes compressed")


if __name__ == "__main__":
    main()
