"""Encoding of texts in which chunks recur: each distinct chunk is encoded once."""

import itertools
from collections.abc import Callable

import numpy as np


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
