"""Character classes, lower-casing and NFC with the same results in every version of Python.

Classes and lower-casing are those of TensorFlow, NFC that of the tokenizers package.

`unicode_tables.json` has the code points of each class. scripts/make_unicode_tables.py writes it.
"""

import functools
import json
import re
import unicodedata
from pathlib import Path

_FILE = Path(__file__).with_name("unicode_tables.json")
# In `re`, membership of a code point up to U+FFFF is one look-up; every range above is one comparison.
_LAST_LOOKED_UP = 0xFFFF
_ABOVE = r"\U00010000-\U0010ffff"


@functools.cache
def _tables() -> dict[str, str]:
    return json.loads(_FILE.read_text(encoding="ascii"))


def ranges(*names: str) -> list[tuple[int, int]]:
    """Returns the first and last code point of every range of some classes.

    Args:
      names: the general categories "L", "N", "P", "S" of RE2; ICU's "capital" (changes in lower
        case; without U+03A3), "cased" and "ignorable" (case-ignorable); or "not normalized": too new for
        the NFC of the tokenizers package.
    """
    return parse_ranges(" ".join(_tables()[name] for name in names))


def parse_ranges(text: str) -> list[tuple[int, int]]:
    """Returns the first and last code point of ranges that are written like "9-D 20"."""
    pairs = []
    for written in text.split():
        first, _, last = written.partition("-")
        pairs.append((int(first, 16), int(last or first, 16)))
    return pairs


def one_of(code_points: list[tuple[int, int]], more: str = "") -> str:
    """Returns a pattern for one code point inside a list of ranges, or with "+" for a run of them."""
    low, high = _members(code_points)
    return f"(?:[{low}]{more}|(?=[{_ABOVE}])[{high}]{more}){more}"


def one_outside(code_points: list[tuple[int, int]], more: str = "") -> str:
    """Returns a pattern for one code point outside a list of ranges, or with "+" for a run of them."""
    low, high = _members(code_points)
    return f"(?:[^{low}{_ABOVE}]{more}|(?![{high}])[{_ABOVE}]){more}"


def _members(code_points: list[tuple[int, int]]) -> tuple[str, str]:
    """Returns what belongs between brackets: ranges up to _LAST_LOOKED_UP, and ranges above."""
    low, high = "", ""
    for first, last in code_points:
        written = f"\\U{first:08x}-\\U{last:08x}"
        low, high = (low + written, high) if last <= _LAST_LOOKED_UP else (low, high + written)
    return low, high


def lower(text: str) -> str:
    """Returns the text in lower case, as ICU's root locale does in `tf.strings.lower`.

    Python's `str.lower` maps the same capitals to the same letters, but a newer Python has more of them
    and a different class of case-ignorable characters.
    """
    if text.isascii():
        return text.lower()
    if "Σ" in text:
        letters = list(text)
        for match in _final_sigma().finditer(text):
            letters[match.end(1)] = "ς"
        text = "".join(letters).replace("Σ", "σ")
    return _capitals().sub(lambda run: run[0].lower(), text)


@functools.cache
def _capitals() -> re.Pattern[str]:
    return re.compile(one_of(ranges("capital"), "+"))


@functools.cache
def _final_sigma() -> re.Pattern[str]:
    """Matches the last cased letter before a final U+03A3, which is at the end of group 1.

    The Unicode Standard, table 3-17, Final_Sigma.
    """
    cased, between = one_of(ranges("cased")), f"(?:{one_of(ranges('ignorable'), '+')})?+"
    return re.compile(f"{cased}(?=({between})Σ(?!{between}{cased}))")


def nfc(text: str) -> str:
    """Returns the text in Unicode's normalization form C, as the tokenizers package does.

    The package has the data of Unicode 9: newer characters stay as and where they are.
    """
    if unicodedata.is_normalized("NFC", text):
        return text
    return "".join(unicodedata.normalize("NFC", part) for part in _too_new().split(text))


@functools.cache
def _too_new() -> re.Pattern[str]:
    return re.compile(f"({one_of(ranges('not normalized'))})")
