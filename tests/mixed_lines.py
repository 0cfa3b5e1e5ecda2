"""Generated lines of text that are difficult for tokenizers. The same seed gives the same lines."""

import random
import tarfile
from pathlib import Path

SCRAPS = [
    *(
        "the",
        "The",
        "film",
        "don't",
        "I'll",
        "we've",
        "you're",
        "she'd",
        "I'm",
        "it's",
        "'S",
        "'LL",
    ),
    *(
        "''",
        "'",
        '"',
        "’s",
        "…",
        "—",
        "==",
        "===",
        "!!!",
        "?!",
        "(",
        ")",
        "{}",
        "[0]",
        "->",
        "#",
        "/*",
    ),
    *("1", "12", "123", "4567", "3.14", "1e-5", "0xFF", "½", "²", "Ⅳ", "①", "٣", "६", "६७", "९८७६"),
    *("é", "ü", "ñ", "naïve", "Čeněk", "ångström", "ŉ", "ß", "İ", "ǅ", "ª", "e\u0301", "\u0301"),
    *("中文", "东京都", "日本語", "한국어", "हिन्दी", "ไทย", "العربية", "עברית", "Ελλάς", "Россия"),
    *(
        "😀",
        "👨\u200d👩\u200d👧",
        "🇩🇪",
        "🏳️\u200d🌈",
        "\U0010ffff",
        "\ufffe",
        "\ue000",
        "\U00100000",
    ),
    *(
        "_",
        "__init__",
        "a_b",
        "camelCase",
        "self.x",
        "return",
        "\\n",
        "\\",
        "<end>",
        "<0x41>",
        "[UNK]",
    ),
    *("\u2581", "\u2585", "\x10", "\x10a", "\0", "\x01", "\x1b", "\x7f", "ÿ", "Ā", "ā", "\ufeff"),
]
SPACES = [
    *(
        " ",
        " ",
        " ",
        "  ",
        "   ",
        "        ",
        "\t",
        "\t\t",
        "\n",
        "\n\n",
        "\r\n",
        "\v",
        "\f",
        " \n ",
    ),
    *(
        "\x1c",
        "\x1d",
        "\x1e",
        "\x1f",
        "\x85",
        "\xa0",
        "\xa0\xa0",
        " \xa0",
        "\xa0 ",
        "\u1680",
        "\u2003",
    ),
    *(
        "\u2009 ",
        "\u200b",
        "\u2028",
        "\u2029",
        "\u202f",
        "\u205f",
        "\u3000",
        "\u3000\u3000",
        "",
        "",
        "",
    ),
]
NAMES = ("value", "i", "tokens", "max_len", "Model", "self", "x_1", "ERROR", "naïveté", "données")


def scraps(count: int, seed: int) -> list[str]:
    """Returns lines of text in many scripts, with many kinds of white space between and around it."""
    draw = random.Random(seed)
    return [
        "".join(draw.choice(SPACES) + draw.choice(SCRAPS) for _ in range(draw.randint(0, 15)))
        + draw.choice(SPACES)
        for _ in range(count)
    ]


def code(count: int, seed: int) -> list[str]:
    """Returns lines that look like source code: indentation, operators, strings, comments."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        a, b, c = (draw.choice(NAMES) for _ in range(3))
        number = draw.choice((str(draw.randint(0, 10**6)), f"{draw.random():.4f}", "1e-5", "0x1F"))
        line = draw.choice(
            (
                f"def {a}({b}: int = {number}, *{c}) -> None:",
                f"{a}[{b}] += {number} if not {c} else -{number}  # it's {b}'s",
                f'print(f"{{{a}!r:>{draw.randint(1, 20)}}}\\t{b}\\n", end="")',
                f"for (int {b} = 0; {b} < {number}; ++{b}) {{ {c}->{a}({b} << 2); }}",
                f"<{a} class='{b}'>{number}</{a}>",
                f"if {a} is not None and {b}['{c}'] != {number}:",
                "",
            )
        )
        lines.append(draw.choice(("", "    ", "        ", "\t", "\t\t", "   ")) * 2 + line)
    return lines


def reviews(archive: Path, count: int) -> list[str]:
    """Returns the first reviews of the archive."""
    found: list[str] = []
    with tarfile.open(archive, "r|gz") as tar:
        for member in tar:
            if len(found) == count:
                break
            file = tar.extractfile(member) if member.name.endswith(".txt") else None
            if file is not None and member.name.count("/") == 3:
                found.append(file.read().decode())
    return found


def twenty_thousand(archive: Path) -> list[str]:
    """Returns 6,000 reviews, 5,000 lines of code and 9,000 lines of scraps."""
    return reviews(archive, 6_000) + code(5_000, 1) + scraps(9_000, 2)
