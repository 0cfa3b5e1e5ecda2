"""Signs that a text was read in a wrong encoding, or is no plain text. Rates are per million characters."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minigpt.insight.text_sample import Passage

# The characters that stand for the bytes 0x80 to 0xBF of UTF-8, read as Latin-1 or Windows-1252.
_CONTINUATION = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
# UTF-8 that was read as Latin-1 or Windows-1252: "Ã©", "â€™", "Ð¿Ñ€", "ä½\xa0å¥½", "ðŸ˜€". Only first
# letters that do not occur before these characters in any language, or sequences of two: "Spaß“" is German.
_MOJIBAKE = re.compile(
    f"[ÂÃ]{_CONTINUATION}|â€|ï»¿|(?:[ÐÑ]{_CONTINUATION}){{2,}}"
    f"|(?:[à-ï]{_CONTINUATION}{{2}}){{2,}}|ðŸ{_CONTINUATION}{{2}}"
    # Windows-1251 that was read as Latin-1: words of accented letters only.
    "|[À-ÖØ-öø-ÿ]{5,}"
)
_REPLACEMENT = re.compile("\ufffd+")
# Tab, line ends and form feed are in many good texts; backspace underlines. The C1 characters, from 0x80
# on, remain of Windows-1252 that was read as Latin-1. Bells that follow each other count once.
_CONTROL = re.compile("[\x00-\x07\x0e-\x1f\x7f-\x9f]+")
_LONE_CR = re.compile("\r(?!\n)")
_SHOWN_CHARACTERS = 15


@dataclass(frozen=True)
class Damage:
    """Occurrences of one kind of damage.

    Attributes:
      count: how many there are.
      per_million: how many in a million characters.
      example: one of them, with the text around it; "" if there is none.
    """

    count: int
    per_million: float
    example: str


def mojibake(passages: Sequence[Passage]) -> Damage:
    """Finds UTF-8 that was read as Latin-1 or Windows-1252: "cafÃ©" instead of "café"."""
    return _occurrences(_MOJIBAKE, (p.text for p in passages if not p.text.isascii()), passages)


def replacement_characters(passages: Sequence[Passage]) -> Damage:
    """Finds U+FFFD, which stands for bytes that could not be decoded."""
    return _occurrences(_REPLACEMENT, (p.text for p in passages if not p.text.isascii()), passages)


def control_characters(passages: Sequence[Passage]) -> Damage:
    """Finds NUL and other control characters that plain text has no use for."""
    return _occurrences(_CONTROL, (passage.text for passage in passages), passages)


def lone_carriage_returns(passages: Sequence[Passage]) -> Damage:
    """Finds carriage returns without a line feed: the line ends of old Macintosh files."""
    return _occurrences(_LONE_CR, (p.text for p in passages if "\r" in p.text), passages)


def _occurrences(
    pattern: re.Pattern[str], texts: Iterable[str], passages: Sequence[Passage]
) -> Damage:
    count, example = 0, ""
    for text in texts:
        found = pattern.findall(text)
        count += len(found)
        if found and not example and (match := pattern.search(text)):
            start = max(0, match.start() - _SHOWN_CHARACTERS)
            example = text[start : match.end() + _SHOWN_CHARACTERS]
    return Damage(count, 1e6 * count / max(1, sum(len(p.text) for p in passages)), example)
