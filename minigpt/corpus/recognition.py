"""What a file of text contains, by its beginning: a chat, a book of Project Gutenberg, a list."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

from minigpt.corpus.chats import is_whatsapp

# Bytes at the beginning of a text that are looked at.
_HEAD_BYTES = 1 << 18
# The first marker is that of books since 2003, which may have a title of several lines.
_START = rb"^[^\w\n]*(?:\*{3} ?START OF THI?[ES] PROJECT GUTENBERG[^*]{,300}\*{3}|\*END\W+THE SMALL PRINT)"
_END = rb"^[^\w\n]*(?:\*{3} ?END OF THI?[ES] PROJECT GUTENBERG|End of (?:th\w+ )?Project Gutenberg)"
_BOOK = re.compile(rb"(?ims)%b[^\n]*\s*(.*?)(?=%b|%b|\Z)" % (_START, _START, _END))
# A list has at least so many lines, and at most these shares of lines that are blank, indented or with a
# tab, that end with a sign of punctuation, and that are full. One in 20 lines may be longer.
_LEAST_LINES, _LINE_CHARACTERS = 100, 100
_BLANK, _PUNCTUATED, _FULL = 0.01, 0.3, 0.25
_PUNCTUATION = tuple(",;:.!?—-{}()[]\"'”’")


def kind_of(blocks: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """Returns what a text contains, "chat", "gutenberg", "lines" or "", and all of its blocks."""
    head = b""
    while len(head) < _HEAD_BYTES and (block := next(blocks, b"")):
        head += block
    text = head[:_HEAD_BYTES].decode(errors="ignore")
    found = {
        "chat": is_whatsapp(text),
        "gutenberg": _BOOK.search(head[:_HEAD_BYTES]),
        "lines": is_list(text),
    }
    return next((kind for kind in found if found[kind]), ""), chain([head], blocks)


def is_list(text: str) -> bool:
    """Returns whether each line of a text is a text of its own: names, titles.

    There are many short lines, and no paragraphs. The lines of verse end with signs of punctuation, or have
    blank lines between them. Those of wrapped prose are full: the next word would not fit.
    """
    found = text.splitlines()
    width = sorted(map(len, found))[int(0.95 * len(found))] if found else 0
    if len(found) < _LEAST_LINES or width > _LINE_CHARACTERS:
        return False
    # A line of two words is a name.
    pairs = [(line, after) for line, after in pairwise(found) if line.count(" ") > 1]
    counts = {
        _BLANK: sum(not line.strip() or line[0].isspace() or "\t" in line for line in found),
        _PUNCTUATED: sum(line.rstrip().endswith(_PUNCTUATION) for line in found),
        _FULL: sum(len(line) + 1 + len(after.split(" ")[0]) > width for line, after in pairs),
    }
    return all(count <= most * len(found) for most, count in counts.items())


def without_license(blocks: Iterable[bytes]) -> bytes:
    """Returns what is between the markers of Project Gutenberg, of one or several books."""
    return b"".join(_BOOK.findall(b"".join(blocks)))
