"""A sample of the training text, for checks that should take little time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from minigpt.corpus.token_store import Corpus
from minigpt.tokenizers import Tokenizer

# Decoding a million tokens takes 0.2 to 0.5 s.
MAX_TOKENS = 1_000_000
MAX_BYTES = 2_000_000
# Each document takes an additional 15 microseconds.
MAX_DOCUMENTS = 20_000
# A longer text is sampled in this many blocks, at equal distances.
BLOCKS = 16


@dataclass(frozen=True)
class Passage:
    """Text of one document.

    Attributes:
      text: the text, not empty.
      begins: whether the document begins with it.
      ends: whether the document ends with it.
    """

    text: str
    begins: bool = True
    ends: bool = True


def sample_text(
    corpus: Corpus, max_tokens: int = MAX_TOKENS, max_bytes: int = MAX_BYTES
) -> list[Passage]:
    """Returns passages of the training text: all of it, or blocks that are spread evenly over it.

    The first block begins with the text, the last one ends with it. The same corpus gives the same
    sample. For pairs, each source and each target is a document.

    Args:
      corpus: the token ids.
      max_tokens, max_bytes: limits of the sample, approximate for the bytes. The documents are limited
        to `MAX_DOCUMENTS`.
    """
    part, end_id = corpus.train, corpus.tokenizer.end_id
    tokens = int(
        min(
            max_tokens,
            max_bytes * part.tokens / max(part.bytes, 1),
            MAX_DOCUMENTS * part.tokens / max(part.documents, 1),
        )
    )
    if part.tokens <= tokens:
        blocks = [(0, len(part.ids))]
    else:
        size = max(1, tokens // BLOCKS)
        starts = np.linspace(0, len(part.ids) - size, BLOCKS).astype(int)
        blocks = [(int(start), int(start) + size) for start in starts]
    passages: list[Passage] = []
    for start, stop in blocks:
        ids = np.asarray(part.ids[start:stop])
        passages += _passages(ids, end_id, corpus.tokenizer)
    return passages


def _passages(ids: np.ndarray, end_id: int, tokenizer: Tokenizer) -> Iterator[Passage]:
    """Yields the passages of a block of ids; the part before its first end token is part of a document."""
    start, begins = 0, False
    for end in [*np.flatnonzero(ids == end_id).tolist(), len(ids)]:
        text = tokenizer.decode(ids[start:end]) if end > start else ""
        if not begins:
            # The block may begin inside a character.
            text = text.lstrip("\ufffd")
        if text:
            yield Passage(text, begins, end < len(ids))
        start, begins = end + 1, True
