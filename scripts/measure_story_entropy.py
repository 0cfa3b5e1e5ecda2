"""Prints an upper bound of the entropy of the bundled stories, in bits per byte.

    python scripts/measure_story_entropy.py

The random choices of the generator determine a story, so its entropy is at most their information: a
choice with probability p has -log2(p) bits. The entropy is the lowest average loss that a model can reach.
"""

import math
from collections.abc import Sequence
from random import Random
from typing import Any

from story_generator import tell
from story_generator.material import load_material
from story_generator.teller import tell_plot

NUM_STORIES = 2000


class CountingRandom:
    """The methods of `random.Random` that the generator calls, with a count of their information.

    Attributes:
      bits: information of all choices so far.
    """

    def __init__(self, seed: str) -> None:
        self._rng = Random(seed)
        self.bits = 0.0

    def choice(self, options: Sequence[Any]) -> Any:
        chosen = self._rng.choice(options)
        self.bits -= math.log2(sum(option == chosen for option in options) / len(options))
        return chosen

    def randrange(self, stop: int) -> int:
        self.bits += math.log2(stop)
        return self._rng.randrange(stop)

    def sample(self, population: Sequence[Any], k: int) -> list[Any]:
        self.bits += math.log2(math.perm(len(population), k))
        return self._rng.sample(population, k)

    def random(self) -> float:
        # The generator compares it with a probability: a choice between two has at most one bit.
        self.bits += 1
        return self._rng.random()


def main() -> None:
    material = load_material()
    numbers = {plot.name: number for number, plot in enumerate(material.plots)}
    bits = size = 0.0
    for index in range(NUM_STORIES):
        expected = tell(index, material=material)
        rng: Any = CountingRandom(f"0:{index}")
        story = tell_plot(numbers[expected.plot], material, rng)
        if story.text != expected.text:
            raise ValueError(f"story {index} is not that of the corpus")
        bits += rng.bits + math.log2(len(material.plots))
        size += len(story.text)
    print(f"at most {bits / size:.3f} bits per byte ({NUM_STORIES:,} stories)")


if __name__ == "__main__":
    main()
