"""The stories are consistent: pronouns, places, possessions, numbers.

The checks read the finished text with regular expressions and share no code with the storyteller. They
use the same tables of names, spots and pronouns, read from the files.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import story_generator as corpus

# The hash in test_stories.py shows whether the text has changed.
pytestmark = pytest.mark.slow

FEMALE = "mother|grandmother|girl|woman|lady|sister|queen|aunt|teacher|Mom|Grandma|Miss|Mrs"
MALE = "father|grandfather|boy|man|mailman|brother|king|snowman|captain|giant|Dad|Grandpa|Mr"


@pytest.fixture(scope="module")
def fits(tables: dict[str, Any]) -> dict[str, re.Pattern[str]]:
    """For each pronoun, a pattern of everybody whom it can refer to."""
    names = {"she": [FEMALE], "he": [MALE]}
    for group in ("child", "little_animal", "large_animal", "grownup", "pet"):
        for entry in tables[group]:
            names[entry["pronoun"]].append(entry["n"])
    return {key: re.compile(rf"\b({'|'.join(value)})\b") for key, value in names.items()}


def narrated_paragraphs(texts: list[str]) -> Iterator[str]:
    """Yields every paragraph of every text without its speech."""
    for text in texts:
        yield from re.sub(r'"[^"]*"', '""', text).split("\n")


def test_pronouns_follow_a_name_in_the_same_paragraph(
    texts: list[str], fits: dict[str, re.Pattern[str]]
) -> None:
    seen = 0
    for paragraph in narrated_paragraphs(texts):
        for match in re.finditer(r"(?:(?<=[.!?\"] )|^)(He|She)\b", paragraph):
            seen += 1
            assert fits[match[1].lower()].search(paragraph[: match.start()]), paragraph
    assert seen > 5_000


def test_things_stay_where_they_are_put(texts: list[str], tables: dict[str, Any]) -> None:
    rooms = [*tables["home"], *tables["outdoor"]]
    spots = "|".join(sorted({spot for room in rooms for spot in room["spots"].split("|")}))
    nouns = "|".join(entry["n"] for group in ("toy", "treasure") for entry in tables[group])
    put = re.compile(rf"\b(?:put|laid|left|hid) the ({nouns}) ({spots})\b")
    found = re.compile(
        rf"There was the (?P<n1>{nouns}), (?P<s1>{spots})!"
        rf"|found the (?P<n2>{nouns}) (?P<s2>{spots})\."
        rf"|looked (?P<s3>{spots}), and there was the (?P<n3>{nouns})!"
        rf"|The (?P<n4>{nouns}) was still (?P<s4>{spots})\."
        rf'|"It was (?P<s5>{spots}),"'
    )
    seen = 0
    for text in texts:
        placed = put.search(text)
        if placed is None or "where is the" in text:
            continue
        again = found.search(text, placed.end())
        assert again, text
        groups = again.groupdict()
        noun = next((groups[f"n{k}"] for k in range(1, 5) if groups[f"n{k}"]), placed[1])
        spot = next(groups[f"s{k}"] for k in range(1, 6) if groups[f"s{k}"])
        assert (noun, spot) == (placed[1], placed[2]), text
        seen += 1
    assert seen > 300


def test_events_follow_from_each_other(told: list[corpus.Story]) -> None:
    """Replays the events with a dictionary as the world."""
    kinds: Counter[str] = Counter()
    for story in told:
        where: dict[str, tuple[str, str]] = {}
        for event in story.events:
            kinds[event.kind] += 1
            if event.kind in ("put", "give"):
                assert where[event.thing] == ("held", event.who), story
            if event.kind == "find":
                assert where[event.thing] == ("at", event.other), story
            if event.kind in ("put", "move"):
                where[event.thing] = ("at", event.other)
            else:
                where[event.thing] = ("held", event.other if event.kind == "give" else event.who)
    assert set(kinds) == {"own", "move", "put", "give", "find"}


def test_names_keep_their_kind(texts: list[str], tables: dict[str, Any]) -> None:
    """Pip is a mouse in every story, Mia a girl."""
    everybody = [
        entry
        for group in ("child", "little_animal", "large_animal", "pet")
        for entry in tables[group]
    ]
    kinds = {entry["n"]: entry["kind"] for entry in everybody}
    assert len(kinds) == len(everybody)
    seen = 0
    for text in texts:
        for kind, name in re.findall(r"\b(\w+) named ([A-Z]\w+)", text):
            seen += 1
            assert kinds[name] == kind, text
        for name, kind in re.findall(r"\b([A-Z]\w+) the (\w+)\b", text):
            if name in kinds and kind in kinds.values():
                assert kinds[name] == kind, text
    assert seen > 1000
