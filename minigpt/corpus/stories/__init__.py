"""The bundled corpus `stories`: short English stories, made by this program.

The text is not stored anywhere: it is built, the same bytes on every machine, from the material
in `data/stories/*.toml` by a small storyteller:

* `material`: reads the hand-written material,
* `template`: the small language the sentences of the material are written in,
* `world`: who has what and where things are, so that a story reports only what is so,
* `teller`: chooses the cast of a plot and tells it.

`stories` yields the stories one by one; `tell` gives one story with what is known about it.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

from .material import Material, load_material, material_folder
from .teller import Story, tell_plot

__all__ = [
    "NUM_STORIES",
    "Story",
    "fingerprint",
    "material_folder",
    "stories",
    "tell",
    "write_stories",
]

NUM_STORIES = 6300
"""How many stories the corpus has; together they are between 5 and 6 MB of text."""


def tell(index: int, seed: int = 0, material: Material | None = None) -> Story:
    """Return story number `index` of the corpus with this seed.

    A story depends on its number and the seed only, never on the stories told before it.
    """
    material = material or load_material()
    # A string seed is hashed with SHA-512 by `random`, alike in every process and version.
    rng = Random(f"{seed}:{index}")
    return tell_plot(_plot_of(index, seed, len(material.plots)), material, rng)


def stories(count: int = NUM_STORIES, seed: int = 0) -> Iterator[str]:
    """Yield the texts of `count` stories, always the same ones for the same seed.

    A story is plain ASCII text in one or more paragraphs, one a line, without a newline at its end.
    """
    material = load_material()
    for index in range(count):
        yield tell(index, seed, material).text


def write_stories(path: Path, *, count: int = NUM_STORIES, seed: int = 0) -> None:
    """Write the corpus to one text file, a blank line between two stories."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number, text in enumerate(stories(count, seed)):
            file.write(("\n" if number else "") + text + "\n")


def fingerprint() -> str:
    """Return the SHA-256 of the program's source and of the material, as hex digits.

    It changes when, and only when, the name or the content of one of these files changes, so a
    text built earlier can be known to be out of date.
    """
    digest = hashlib.sha256()
    sources = sorted(Path(__file__).parent.glob("*.py"))
    for path in [*sources, *sorted(material_folder().glob("*.toml"))]:
        content = path.read_bytes()
        digest.update(f"{path.name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


def _plot_of(index: int, seed: int, num_plots: int) -> int:
    """Return the number of the plot for story `index`.

    Every run of `num_plots` stories uses each plot once, in an order of its own, so that all plots
    are equally frequent whatever the number of stories.
    """
    lap, position = divmod(index, num_plots)
    order = list(range(num_plots))
    Random(f"plots:{seed}:{lap}").shuffle(order)
    return order[position]
