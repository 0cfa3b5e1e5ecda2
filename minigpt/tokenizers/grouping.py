"""Cutting long texts and grouping short ones, so that all cores can encode."""

import re
import reprlib
from collections.abc import Iterable, Iterator

GROUP_SIZE = 1 << 20  # characters that one core encodes at a time
PART_SIZE = 1 << 14  # characters after which a text is cut; sentencepiece is fastest on short texts


def cut(text: str, after: re.Pattern[str]) -> Iterator[str]:
    """Cuts a text into parts of about PART_SIZE characters.

    Args:
      text: any text; an empty one gives one empty part.
      after: each cut is at the end of a match of this pattern.
    """
    start = 0
    while len(text) - start > PART_SIZE:
        match = after.search(text, start + PART_SIZE)
        if not match or match.end() == len(text):
            break
        yield text[start : match.end()]
        start = match.end()
    yield text[start:]


def strings(texts: Iterable[str]) -> Iterator[str]:
    """Yields the texts.

    Raises:
      TypeError: `texts` is a single string, whose characters would be texts, or no texts.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise TypeError(f"`texts` must be a list of strings. Received: {reprlib.repr(texts)}")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(
                f"text should be a string. Received: {reprlib.repr(text)} of type {type(text).__name__}"
            )
        yield text


def checked(texts: Iterable[str]) -> Iterator[str]:
    """Yields the texts.

    Raises:
      TypeError: see `strings`.
      ValueError: a text contains half of a surrogate pair.
    """
    for text in strings(texts):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text should be valid Unicode. Received: half of a surrogate pair, "
                f"U+{ord(text[error.start]):04X}, at character {error.start}"
            ) from None
        yield text


def in_groups(texts: Iterable[str]) -> Iterator[list[str]]:
    """Groups texts, in order, into lists of about GROUP_SIZE characters.

    Raises:
      ValueError: a text contains half of a surrogate pair.
    """
    group, size = [], 0
    for text in checked(texts):
        group.append(text)
        size += len(text)
        if size >= GROUP_SIZE:
            yield group
            group, size = [], 0
    if group:
        yield group
