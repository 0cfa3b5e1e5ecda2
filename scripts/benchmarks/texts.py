"""Artificial text of any length, equal on every machine, with word frequencies as in a language."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_SYLLABLES = [a + b for a, b in itertools.product("bcdfghjklmnprstvwz", "aeiou")]
_BEHIND = [" ", ", ", ". ", ".\n", ".\n\n"]
_BEHIND_SHARES = [0.86, 0.05, 0.06, 0.02, 0.01]
_WORDS_AT_ONCE = 500_000


def vocabulary(size: int, seed: int = 0) -> list[str]:
    """Returns distinct words of one to four syllables, short ones first."""
    draw = np.random.default_rng(seed)
    words: list[str] = []
    for syllables in range(1, 5):
        there = len(_SYLLABLES) ** syllables
        # A language uses only some of its possible words.
        share = min(there, size if syllables > 2 else there // 2, size - len(words))
        for number in draw.choice(there, share, replace=False).tolist():
            parts = []
            for _ in range(syllables):
                number, part = divmod(number, len(_SYLLABLES))
                parts.append(_SYLLABLES[part])
            words.append("".join(parts))
    return words


def _sentences(words: list[str], seed: int) -> Iterator[str]:
    """Yields endless text by Zipf's law: the frequency of word n is proportional to 1 / (n + 3)."""
    draw = np.random.default_rng(seed)
    shares = 1 / (np.arange(len(words)) + 3.0)
    edges = np.cumsum(shares) / shares.sum()
    table = [word + behind for word in words for behind in _BEHIND]
    while True:
        chosen = np.minimum(np.searchsorted(edges, draw.random(_WORDS_AT_ONCE)), len(words) - 1)
        behind = draw.choice(len(_BEHIND), _WORDS_AT_ONCE, p=_BEHIND_SHARES)
        yield "".join(map(table.__getitem__, (chosen * len(_BEHIND) + behind).tolist()))


def write_text(path: Path, size: int, vocab_size: int = 60_000) -> Path:
    """Writes `size` bytes of text that contain every word early on; an existing file is kept."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    words = vocabulary(vocab_size)
    with open(path.with_suffix(".part"), "w", encoding="ascii") as file:
        written = file.write(" ".join(words)[:size] + ".\n")
        for text in _sentences(words, seed=1):
            if written + len(text) >= size:
                file.write(text[: max(0, size - written)])
                break
            written += file.write(text)
    return path.with_suffix(".part").rename(path)


def write_characters(path: Path, size: int, characters: str) -> Path:
    """Writes `size` characters drawn uniformly from `characters`, after each of them once, with spaces."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    drawn = np.array(list(characters))[draw.integers(len(characters), size=size)]
    path.write_text(" ".join([*characters, *drawn.tolist()]), encoding="utf-8")
    return path
