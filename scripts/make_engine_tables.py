"""Writes minigpt/targets/gguf/engine/unicode_ranges.h: character classes and lower-casing, for the engine.

    python scripts/make_engine_tables.py

The classes come from minigpt/tokenizers/unicode_tables.json; run this script when that file changes. The
lower-case letters come from `str.lower`. Unicode never changes the lower case of a character that has
one, so every Python that knows all capitals writes the same file; an older one is refused.
"""

import itertools
from pathlib import Path

from minigpt.tokenizers.unicode_tables import ranges

FILE = (
    Path(__file__).resolve().parents[1]
    / "minigpt"
    / "targets"
    / "gguf"
    / "engine"
    / "unicode_ranges.h"
)
# In the order of CharacterClass in unicode.h.
CLASSES = {
    "LETTER": ("L",),
    "NUMBER": ("N",),
    "MARK": ("P", "S"),
    "CASED": ("cased",),
    "IGNORABLE": ("ignorable",),
}
# The only character whose lower case is two characters: "i" and U+0307. unicode.c adds the second one.
TWO_CHARACTERS = "\u0130"
HEADER = """\
/* Written by scripts/make_engine_tables.py. Numbers are stored in 7 bits of each byte, the lowest first;
   bit 7 is set if more follow.

   RANGES: for each range of code points, the distance from the end of the one before it, and its
   length - 1. The classes have the order of CharacterClass.
   RULES: for each run of capitals, the distance from the end of the one before it; 2 (length - 1), + 1 if
   only every second code point is a capital; and the distance d to the lower case: 2 d, or -2 d - 1 if d
   is negative. */
"""


def number(value: int) -> list[int]:
    """Returns the bytes of a number that is not negative."""
    stored = []
    while value > 127:
        stored.append(value & 127 | 128)
        value >>= 7
    return [*stored, value]


def joined(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorts ranges of code points, and joins those that touch."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if found and found[-1][1] + 1 == first:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


def stored_ranges(pairs: list[tuple[int, int]]) -> list[int]:
    """Returns the bytes of sorted ranges."""
    stored, end = [], 0
    for first, last in pairs:
        stored += number(first - end) + number(last - first)
        end = last + 1
    return stored


def lower_case() -> dict[int, int]:
    """Returns capital → the first character of its lower case.

    Raises:
      ValueError: this Python has no lower case for a capital, or one that unicode.c does not expect.
    """
    found = {}
    for c in itertools.chain(*(range(first, last + 1) for first, last in ranges("capital"))):
        lower = chr(c).lower()
        if lower == chr(c):
            raise ValueError(f"U+{c:04X}: has no lower case in this Python; use a newer one")
        if len(lower) != 1 and (chr(c) != TWO_CHARACTERS or lower != "i\u0307"):
            raise ValueError(f"U+{c:04X}: its lower case is {lower!r}; unicode.c cannot write it")
        if len(lower.encode()) > 2 * len(chr(c).encode()):
            raise ValueError(f"U+{c:04X}: its lower case is more than twice as long")
        found[c] = ord(lower[0])
    return found


def rules(letters: dict[int, int]) -> list[tuple[int, int, int, int]]:
    """Returns runs of capitals with the same distance to the lower case: first, length, step, distance."""
    found: list[tuple[int, int, int, int]] = []
    for c, lower in sorted(letters.items()):
        if found:
            first, length, step, distance = found[-1]
            gap = c - (first + (length - 1) * step)
            if distance == lower - c and (gap == step or (length == 1 and gap == 2)):
                found[-1] = first, length + 1, gap, distance
                continue
        found.append((c, 1, 1, lower - c))
    return found


def stored_rules(found: list[tuple[int, int, int, int]]) -> list[int]:
    """Returns the bytes of sorted rules."""
    stored, end = [], 0
    for first, length, step, distance in found:
        stored += number(first - end) + number(2 * (length - 1) + step - 1)
        stored += number(2 * distance if distance >= 0 else -2 * distance - 1)
        end = first + (length - 1) * step + 1
    return stored


def array(name: str, stored: list[int]) -> str:
    """Returns the C definition of bytes, 120 columns wide."""
    lines = ["   "]
    for value in stored:
        if len(lines[-1]) + len(f" {value},") > 120:
            lines.append("   ")
        lines[-1] += f" {value},"
    return "\n".join([f"static const uint8_t {name}[] = {{", *lines, "};\n"])


def header() -> str:
    """Returns the content of unicode_ranges.h."""
    classes = {name: joined(ranges(*tables)) for name, tables in CLASSES.items()}
    capitals = rules(lower_case())
    counts = [f"#define {name}_RANGES {len(pairs)}\n" for name, pairs in classes.items()]
    stored = itertools.chain(*(stored_ranges(pairs) for pairs in classes.values()))
    return "\n".join(
        [
            HEADER,
            "".join([*counts, f"#define RULE_COUNT {len(capitals)}\n"]),
            array("RANGES", list(stored)),
            array("RULES", stored_rules(capitals)),
        ]
    )


def main() -> None:
    text = header()
    FILE.write_text(text, encoding="ascii")
    print(f"Wrote {FILE}: {text.count(',') - HEADER.count(',')} bytes of tables")


if __name__ == "__main__":
    main()
