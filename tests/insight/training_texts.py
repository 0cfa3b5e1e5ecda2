"""Training texts as token ids, and an independent search in them."""

import re

import numpy as np

from minigpt.insight.verbatim import Copies, Text, TokenBytes, TokenText, find_copies
from minigpt.tokenizers import Tokenizer

WORD = re.compile(r"[^ \t\n\r\v\f]+")


def ids_of(tokenizer: Tokenizer, documents: list[str]) -> np.ndarray:
    """The ids of documents as in a token store."""
    end = np.array([tokenizer.end_id])
    rows = [row for document in documents for row in (tokenizer.encode(document), end)]
    return np.concatenate([end, *rows]).astype(np.uint32)


def search(
    tokenizer: Tokenizer, documents: list[str], texts: list[str], prompts: list[int] | None = None
) -> tuple[Copies, TokenText]:
    """The copies in texts, of which so many bytes are prompts, and the training text."""
    token_bytes = TokenBytes(tokenizer)
    training = TokenText(ids_of(tokenizer, documents), token_bytes, targets_only=False)
    queries = [
        Text(token_bytes.join(tokenizer.encode(text)), begin)
        for text, begin in zip(texts, prompts or [0] * len(texts), strict=True)
    ]
    return find_copies(training, queries, token_bytes), training


def brute_force(
    documents: list[str], text: str, begin: int = 0, words: int = 8, characters: int = 50
) -> tuple[set[int], int]:
    """The positions of a text inside passages of it that occur, and the length of the longest one."""
    found = [match.span() for match in WORD.finditer(text)]
    inside: set[int] = set()
    longest = 0
    for first in range(len(found)):
        for last in range(first + words - 1, len(found)):
            start, end = found[first][0], found[last][1]
            if end - start < characters or end <= begin:
                continue
            if not any(_contains(document, text[start:end]) for document in documents):
                break
            inside |= set(range(max(start, begin), end))
            longest = max(longest, end - max(start, begin))
    return inside, longest


def _contains(document: str, passage: str) -> bool:
    """Whether whole words of a document are the passage."""
    position = document.find(passage)
    while position >= 0:
        around = document[:position][-1:] + document[position + len(passage) :][:1]
        if not WORD.search(around):
            return True
        position = document.find(passage, position + 1)
    return False


def positions(spans: list[tuple[int, int]]) -> set[int]:
    return {position for begin, end in spans for position in range(begin, end)}
