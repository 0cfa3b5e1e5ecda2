"""Splitting text into words before merging, by two published patterns.

Radford et al. (2019) published the first one; the tokenizers of Qwen2 and Qwen3 have the second one.
"""

import functools
import re
from typing import Literal

from minigpt.tokenizers.unicode_tables import (
    one_of,
    one_or_more,
    one_or_more_outside,
    one_outside,
    parse_ranges,
    ranges,
)

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
    letters = one_or_more(ranges("L"))
    signs = one_or_more_outside(ranges("L", "N") + WHITE_SPACE)
    inside = "".join(f"\\u{first:04x}-\\u{last:04x}" for first, last in WHITE_SPACE)
    spaces = f"[{inside}]+(?![^{inside}])|[{inside}]+"
    if splitting == "gpt2":
        words = rf" ?{letters}| ?{one_or_more(ranges('N'))}| ?{signs}"
    else:
        before = one_outside([*ranges("L", "N"), (0x0A, 0x0A), (0x0D, 0x0D)])
        words = rf"{before}?{letters}|{one_of(ranges('N'))}| ?{signs}[\r\n]*|[{inside}]*[\r\n]+"
    return re.compile(f"{CONTRACTIONS[splitting]}|{words}|{spaces}")
