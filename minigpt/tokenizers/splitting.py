"""How a text is split before merging: at added tokens, and into words by two published patterns.

Added tokens are texts such as `<user>` that are one token wherever they occur. They are found as the
tokenizers package finds them, before the rest of the text is split into words. Radford et al. (2019)
published the first pattern; the tokenizers of Qwen2 and Qwen3 have the second one.
"""

import functools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from minigpt.tokenizers.unicode_tables import one_of, one_outside, parse_ranges, ranges

Splitting = Literal["gpt2", "qwen2"]

# As they are published. `word_pattern` and the graph have them in other terms.
PATTERNS: dict[Splitting, str] = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
WHITE_SPACE = parse_ranges("9-D 20 85 A0 1680 2000-200A 2028-2029 202F 205F 3000")
# A word ends at a match, however the text goes on.
CUT_AFTER: dict[Splitting, re.Pattern[str]] = {
    "gpt2": re.compile(r"\S(?=[ \n])"),
    # Line breaks belong to signs before them.
    "qwen2": re.compile(r"\S(?= )|[A-Za-z\u3400-\u9fff](?=\n)"),
}
# U+017F is a form of "s".
CONTRACTIONS: dict[Splitting, str] = {
    "gpt2": "'(?:[stmd]|re|ve|ll)",
    "qwen2": "'(?:[sS\u017ftTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])",
}


@functools.cache
def word_pattern(splitting: Splitting) -> re.Pattern[str]:
    """Returns a published pattern, which matches the words of a text one after the other.

    Its classes of characters are those of TensorFlow's RE2, and the same in every version of Python.
    """
    letters = one_of(ranges("L"), "+")
    signs = one_outside(ranges("L", "N") + WHITE_SPACE, "+")
    inside = "".join(f"\\u{first:04x}-\\u{last:04x}" for first, last in WHITE_SPACE)
    spaces = f"[{inside}]+(?![^{inside}])|[{inside}]+"
    if splitting == "gpt2":
        words = rf" ?{letters}| ?{one_of(ranges('N'), '+')}| ?{signs}"
    else:
        before = one_outside([*ranges("L", "N"), (0x0A, 0x0A), (0x0D, 0x0D)])
        words = rf"{before}?{letters}|{one_of(ranges('N'))}| ?{signs}[\r\n]*|[{inside}]*[\r\n]+"
    return re.compile(f"{CONTRACTIONS[splitting]}|{words}|{spaces}")


@dataclass(frozen=True)
class AddedToken:
    """A token and its flags, with the names of tokenizer.json.

    Attributes:
      id: its id.
      content: its text, not empty.
      single_word, lstrip, rstrip: False: `GPT2Tokenizer` finds a token wherever its text occurs.
      normalized: whether it is searched for in the normalized text.
      special: whether it is a special token. This does not change how text is encoded.
    """

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


def read_added_tokens(described: Any) -> list[AddedToken]:
    """Reads entries of tokenizer.json, whose missing flags have their defaults; a ValueError if damaged."""
    tokens = TypeAdapter(list[AddedToken]).validate_json(json.dumps(described), strict=True)
    if not all(token.content and token.id >= 0 for token in tokens):
        raise ValueError("an added token has no text or a negative id")
    return tokens


class AddedTokens:
    """Finds added tokens in texts; those with `normalized` in the text that `normalize` returns."""

    def __init__(self, tokens: Sequence[AddedToken], normalize: Callable[[str], str]) -> None:
        as_they_are = {t.content: t.id for t in tokens if not t.normalized}
        normalized: dict[Any, Any] = {normalize(t.content): t.id for t in tokens if t.normalized}
        self._searches = [
            (change, re.compile(f"({alternatives(ids)})"), ids)
            for change, ids in ((str, as_they_are), (normalize, normalized))
            if ids
        ]

    def split(self, text: str) -> list[str | int]:
        """Returns the ids of the added tokens in a text, and the texts between them, in their order."""
        parts: list[str | int] = [text]
        for change, pattern, ids in self._searches:
            split: Iterable[Any] = (
                pattern.split(change(p)) if isinstance(p, str) else [p] for p in parts
            )
            # The text between two tokens is none.
            parts = [ids.get(part, part) for found in split for part in found if part != ""]
        return parts


def alternatives(contents: Iterable[str]) -> str:
    """Returns a pattern for one of several texts: the longest of those that begin at a character."""
    return "|".join(map(re.escape, sorted(contents, key=len, reverse=True)))
