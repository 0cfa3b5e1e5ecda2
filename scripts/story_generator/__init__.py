"""The generator of the bundled corpus `stories`: short English stories.

It makes the same bytes on every machine, from the hand-written material in `data/stories/*.toml`:

* `material` reads the material,
* `template` parses the template language of its sentences,
* `world` tracks who has what and where things are, so that a story states only what is true in it,
* `teller` chooses the cast of a plot and writes the story.

`stories` yields the texts of the stories; `tell` returns one story with its plot, cast and events.
"""

from collections.abc import Iterator
from random import Random

from story_generator.material import Material, load_material, material_folder
from story_generator.teller import Story, tell_plot

__all__ = [
    "NUM_STORIES",
    "Story",
    "material_folder",
    "stories",
    "tell",
]

NUM_STORIES = 6300
"""The number of stories in the corpus; together they have between 5 and 6 MB of text."""


def tell(index: int, seed: int = 0, material: Material | None = None) -> Story:
    """Returns story number `index` of the corpus with this seed.

    A story depends only on its number and the seed, not on other stories.
    """
    material = material or load_material()
    # `random` hashes a string seed with SHA-512, in the same way in every process and version.
    rng = Random(f"{seed}:{index}")
    return tell_plot(_plot_of(index, seed, len(material.plots)), material, rng)


def stories(count: int = NUM_STORIES, seed: int = 0) -> Iterator[str]:
    """Yields the texts of `count` stories, always the same ones for the same seed.

    A story is plain ASCII text of one or more paragraphs, one per line, without a final newline.
    """
    material = load_material()
    for index in range(count):
        yield tell(index, seed, material).text


def _plot_of(index: int, seed: int, num_plots: int) -> int:
    """Returns the number of the plot for story `index`.

    Every `num_plots` consecutive stories use each plot once, in a new order, so that all plots are
    equally frequent for any number of stories.
    """
    cycle, position = divmod(index, num_plots)
    order = list(range(num_plots))
    Random(f"plots:{seed}:{cycle}").shuffle(order)
    return order[position]
