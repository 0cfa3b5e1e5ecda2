"""Training texts as token ids, and an independent search in them."""

import re

import numpy as np

from minigpt.insight.verbatim import TokenBytes, find_copies
from minigpt.tokenizers.base import Tokenizer

WORD = re.compile(r"[^ \t\n\r\v\f]+")


def search(tokenizer: Tokenizer, documents: list[str], texts: list[str]) -> list[np.ndarray]:
    """Whether each byte of the texts is in a passage that is in one of the documents."""
    token_bytes = TokenBytes(tokenizer)
    end = np.array([tokenizer.end_id])
    rows = [row for document in documents for row in (tokenizer.encode(document), end)]
    ids = np.concatenate([end, *rows]).astype(np.uint32)
    queries = [token_bytes.join(tokenizer.encode(text)) for text in texts]
    return find_copies(token_bytes.blocks(ids), queries)


def brute_force(documents: list[str], text: str) -> set[int]:
    """The positions of a text inside passages that occur: 8 words and 50 characters at least."""
    found = [match.span() for match in WORD.finditer(text)]
    inside: set[int] = set()
    for number, (start, _) in enumerate(found):
        ends = [end for _, end in found[number + 7 :] if end - start >= 50]
        if ends and any(_contains(document, text[start : ends[0]]) for document in documents):
            inside |= set(range(start, ends[0]))
    return inside


def _contains(document: str, passage: str) -> bool:
    """Whether whole words of a document are the passage."""
    edge = r"(?![^ \t\n\r\v\f])"
    behind = r"(?<![^ \t\n\r\v\f])"
    return re.search(behind + re.escape(passage) + edge, document) is not None
