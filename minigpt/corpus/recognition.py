"""What a file of text contains, by its beginning: a chat, a book of Project Gutenberg, a list."""

import re
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import chain

from minigpt.corpus.chats import is_whatsapp

# Bytes at the beginning of a text in which licenses, and chats and lists, are looked for.
_BOOK_BYTES, _HEAD_BYTES = 1 << 22, 1 << 18
_TITLE = rb"^[^\w\n]*(?:The |This )?Project Gutenberg(?:'s [^\n]+, by | e-?(?:book|text),? of )"
# The first marker is that of books since 2003, which may have a title of several lines.
_START = rb"\*{3} ?START OF THI?[ES] PROJECT GUTENBERG.{,300}?\*{3}|\*END\W+THE SMALL PRINT"
_END = rb"^[^\w\n]*(?:\*{3} ?END OF THI?[ES] PROJECT GUTENBERG|End of (?:th\w+ )?Project Gutenberg)"
_MARKER = re.compile(b"(?ims)%b|%b" % (_START, _END))
# A license, a header from its title on, and one without title: a file may have other texts, too.
_PATTERNS = (
    _END + rb".*?(?:hear\s+about\s+new\s+ebooks\.\s*|(?=%b)|\Z)" % _TITLE,
    *(rb"%b.{,99999}?(?:%b)[^\n]*\s*" % (begin, _START) for begin in (_TITLE, rb"\A")),
)
_LICENSES = [re.compile(b"(?ims)" + pattern) for pattern in _PATTERNS]
# A list has at least so many lines, of which one in 20 may be longer. At most these shares are blank,
# indented or with a tab, end with punctuation, are full, and begin with the name of another and a colon.
_LEAST_LINES, _LINE_CHARACTERS = 100, 150
_BLANK, _INDENTED, _PUNCTUATED, _FULL, _NAMED = 0.05, 0.01, 0.3, 0.4, 0.5
_PUNCTUATION = tuple("-,;:.!?—{}()[]'’，、。；：！？」…")
# A word of so many characters is no name.
_WORD_CHARACTERS = 20
# What is around a name or a title: a number, quotation marks, "(1995)".
_FRAME = re.compile(
    r"^\s*(?:\d+[.):]?\s+|[-*•]\s+)?[\"“„«]?|[\"”»]?(?:\s[(\[][^()\[\]]*[)\]])?\s*$"
)


def kind_of(blocks: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """Returns what a text contains, "chat", "gutenberg", "lines" or "", and all of its blocks."""
    head = b""
    while len(head) < _BOOK_BYTES and (block := next(blocks, b"")):
        head += block
    text = head[:_HEAD_BYTES].decode(errors="ignore")
    kind = "chat" if is_whatsapp(text) else "gutenberg" if _MARKER.search(head) else ""
    return kind or ("lines" if is_list(text) else ""), chain([head], blocks)


def is_list(text: str) -> bool:
    """Returns whether each line of a text is a text of its own: names, titles.

    There are many short lines, and no paragraphs. The lines of verse end with signs of punctuation, or have
    blank lines between them. Those of wrapped prose are full: the next word would not fit, or, in a text
    without spaces, the next character. In a dialogue, the same names precede colons.
    """
    written = [line for line in text.splitlines() if line.strip()]
    found = [_FRAME.sub("", line) for line in written]
    width = sorted(map(len, found))[int(0.95 * len(found))] if found else 0
    if len(found) < _LEAST_LINES or width > _LINE_CHARACTERS:
        return False
    words = [line.split(" ") for line in found]
    full = (
        len(line) + 1 + (len(after[0]) if len(parts) > 2 else 0) > width
        for line, parts, after in zip(found, words, words[1:], strict=False)
        if len(parts) > 2 or (len(parts) == 1 and len(line) >= _WORD_CHARACTERS)
    )
    named = [line.split(":")[0] for line in found if re.search(": |：", line)]
    counts = {
        _BLANK: len(text.splitlines()) - len(found),
        _INDENTED: sum(line[0].isspace() or "\t" in line for line in written),
        _PUNCTUATED: sum(line.endswith(_PUNCTUATION) for line in found),
        _FULL: sum(full),
        _NAMED: len(named) - len(set(named)),
    }
    return all(count <= most * len(found) for most, count in counts.items())


def without_license(blocks: Iterable[bytes]) -> bytes:
    """Returns a text without the headers and licenses of the books of Project Gutenberg in it."""
    return reduce(lambda text, license: license.sub(b"", text), _LICENSES, b"".join(blocks))
