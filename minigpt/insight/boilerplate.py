"""Text that is no content: licenses of e-books, HTML, the same lines at the ends of many documents."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from minigpt.insight.repetition import MIN_LINE_CHARACTERS, has_words
from minigpt.insight.text_sample import Passage

# The lines that Project Gutenberg writes before and after a book, of all years.
_GUTENBERG = re.compile(
    r"\*\*\* ?(?:START|END) OF (?:THE|THIS) PROJECT GUTENBERG|"
    r"This e?text was prepared .{0,80}Project Gutenberg|"
    r"Project Gutenberg(?:-tm|™|\(TM\)) (?:License|electronic works?)",
    re.IGNORECASE,
)
# Not <br>, <i> and <b>, which are in reviews and posts, and no other names, which may be of people.
_TAG = re.compile(
    r"<(?:!doctype|/?(?:html|head|body|title|meta|link|script|style|div|span|p|a|img|h[1-6]|[uo]l|li|d[ldt]"
    r"|table|thead|tbody|t[rhd]|nav|header|footer|main|section|article|aside|form|input|button|label))"
    r"(?:\s[^<>]{0,300})?/?>",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:nbsp|amp|lt|gt|quot|#\d{2,6});")
# A program begins with them.
_IMPORT = re.compile(r"(?:from|import|#include|using|package|use|require|@import)\b")
_END_LINES = 3
_MIN_DOCUMENTS = 20


@dataclass(frozen=True)
class SharedLine:
    """A line near the beginning or the end of many documents.

    Attributes:
      line: the line without white space around it.
      at_end: whether it is near the end.
      count: number of documents with it.
      documents: number of documents that were compared.
    """

    line: str
    at_end: bool
    count: int
    documents: int


def gutenberg_lines(passages: Sequence[Passage]) -> list[str]:
    """Returns what Project Gutenberg's headers and licenses contain, as found."""
    return [found for p in passages for found in _GUTENBERG.findall(p.text)]


def html_share(passages: Sequence[Passage]) -> tuple[float, str]:
    """Returns the share of the characters that are HTML tags and entities, and one of the tags."""
    markup, example = 0, ""
    for passage in passages:
        if "<" not in passage.text:
            continue
        tags = _TAG.findall(passage.text)
        markup += sum(map(len, tags)) + sum(map(len, _ENTITY.findall(passage.text)))
        example = example or (tags[0] if tags else "")
    return markup / max(1, sum(len(p.text) for p in passages)), example


def shared_line(passages: Sequence[Passage]) -> SharedLine | None:
    """Returns the line that most documents have among their first or last three lines.

    Compared are documents of at least two lines, if there are 20 of them. Short lines and imports of
    programs do not count.
    """
    best: SharedLine | None = None
    for at_end in (False, True):
        counts: Counter[str] = Counter()
        documents = 0
        for passage in passages:
            if not (passage.ends if at_end else passage.begins):
                continue
            lines = [line for line in map(str.strip, passage.text.splitlines()) if line]
            if len(lines) < 2:
                continue
            documents += 1
            counts.update(set(lines[-_END_LINES:] if at_end else lines[:_END_LINES]))
        candidates = [(n, line) for line, n in counts.items() if _is_content(line)]
        if documents < _MIN_DOCUMENTS or not candidates:
            continue
        count, line = max(candidates)
        if best is None or count / documents > best.count / best.documents:
            best = SharedLine(line, at_end, count, documents)
    return best


def _is_content(line: str) -> bool:
    return len(line) >= MIN_LINE_CHARACTERS and has_words(line) and not _IMPORT.match(line)
