"""Counts in how many stories the child of the first sentence keeps its name and pronoun.

    python scripts/measure_story_names.py FILE.gguf

Each story continues one prompt with 120 tokens at temperature 0.6, with the seeds 0 to 19. The child keeps
its name if the name stands in a later sentence, and its pronoun if the other pronoun occurs only where
somebody else is named or called by a word such as "mother".
"""

import re
import sys
from pathlib import Path

import zstandard

import minigpt

PROMPT = "Once upon a time, there was a little"
STORIES = Path(__file__).resolve().parents[1] / "data" / "stories.txt.zst"
PRONOUNS = {"boy": {"he", "him", "his"}, "girl": {"she", "her", "hers"}}
OTHERS = (
    "mother|father|mom|dad|grandma|grandpa|grandmother|grandfather|sister|brother|man|woman|"
    "teacher|friend|dog|cat|pony|bird|rabbit|neighbor"
)


def names_of_children(text: str) -> set[str]:
    """Returns the names that a text introduces."""
    return set(re.findall(r"little (?:boy|girl) named (\w+)", text))


def keeps_the_child(story: str, names: set[str]) -> bool:
    """Returns whether the child that is introduced first keeps its name and pronoun."""
    introduced = re.search(r"little (boy|girl) named (\w+)", story)
    if introduced is None:
        return False
    kind, name = introduced.groups()
    rest = story[introduced.end() :]
    words = re.findall(r"\w+", rest)
    own, other = PRONOUNS[kind], PRONOUNS["girl" if kind == "boy" else "boy"]
    has_others = bool(names & set(words) - {name} or re.search(OTHERS, rest, re.IGNORECASE))
    has_wrong = any(word.lower() in other for word in words)
    first = next((word.lower() for word in words if word.lower() in own | other), None)
    return name in words and (has_others or not has_wrong) and first not in other


def main() -> None:
    (path,) = sys.argv[1:]
    with zstandard.open(STORIES, "rt", encoding="utf-8") as file:
        names = names_of_children(file.read())
    try:
        model = minigpt.load_portable(path)
    except minigpt.UserError as error:
        sys.exit(str(error))
    assert isinstance(model, minigpt.PortableTextModel), "should be a file of stories"
    stories = [
        PROMPT + model.generate(PROMPT, 120, seed=seed, temperature=0.6)[0] for seed in range(20)
    ]
    kept = [keeps_the_child(story, names) for story in stories]
    for story, is_kept in zip(stories, kept, strict=True):
        if not is_kept:
            print(story, end="\n\n")
    print(f"{sum(kept)} of {len(stories)} stories keep the child of their first sentence")


if __name__ == "__main__":
    main()
