"""Cutting long texts, grouping short ones, so that all cores can encode, and encoding chunks that recur."""

import itertools
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np

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


def checked(texts: Iterable[str]) -> Iterator[str]:
    """Yields the texts.

    Raises:
      TypeError: `texts` is a single string, whose characters would be texts, or has no texts.
      UnicodeEncodeError: a text contains half of a surrogate pair.
    """
    if isinstance(texts, str):
        raise TypeError(f"`texts` must be a list of strings. Received: {reprlib.repr(texts)}")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"text should be a string. Received: {reprlib.repr(text)}")
        text.encode()
        yield text


def in_groups(texts: Iterable[str]) -> Iterator[list[str]]:
    """Groups texts, in order, into lists of about GROUP_SIZE characters."""
    group, size = [], 0
    for text in texts:
        group.append(text)
        size += len(text)
        if size >= GROUP_SIZE:
            yield group
            group, size = [], 0
    if group:
        yield group


def encode_chunks(
    texts: list[str],
    split: Callable[[str], list[str]],
    encode: Callable[[list[str]], list[bytes]],
) -> list[np.ndarray]:
    """Encodes texts chunk by chunk.

    Args:
      texts: the texts.
      split: returns the chunks of a text. The ids of the chunks, in order, are the ids of the text.
      encode: returns the ids of every chunk as the bytes of int32[T]. Joining bytes is faster than
        making an array of a list of numbers.
    Returns:
      int32[T] for every text.
    """
    chunks: list[str] = []
    counts = [0]
    for text in texts:
        found = split(text)
        chunks += found
        counts.append(len(found))
    different = list(set(chunks))
    bytes_of = dict(zip(different, encode(different), strict=True))
    encoded = [bytes_of[chunk] for chunk in chunks]
    ids = np.frombuffer(bytearray().join(encoded), np.int32)
    sizes = np.fromiter(map(len, encoded), np.int64, len(encoded)) // ids.itemsize
    ends = np.concatenate([[0], np.cumsum(sizes)])[np.cumsum(counts)]
    return [ids[start:end] for start, end in itertools.pairwise(ends.tolist())]
