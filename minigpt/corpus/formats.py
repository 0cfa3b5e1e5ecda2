"""The texts of documents: books, pages, reports, notebooks and subtitles. Nothing is written to the disk.

A new kind of document is a function in `FORMATS`, from the bytes of a file to its text. Any exception means
that the file cannot be read.
"""

import io
import json
import logging
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from posixpath import dirname, join, normpath
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

# The files of an archive may have so many bytes: a few bytes can become gigabytes.
MAX_UNPACKED = 1 << 28
_SKIPPED = "title script style template noscript svg nav w:ppr w:rpr w:movefrom mc:fallback"
# Notes would interrupt a sentence.
_SKIPPED += " office:annotation text:tracked-changes text:note"
_PARAGRAPHS = "p h1 h2 h3 h4 h5 h6 div pre blockquote ul ol dl table hr section article header"
_PARAGRAPHS += " footer main aside figure w:p text:p text:h subtitle empty-line"
_LINES = "br li dt dd tr figcaption w:br w:cr text:line-break v text-author"
# What stands for a tag in the text.
_GAPS = {"w:tab": "\t", "text:tab": "\t", "w:nobreakhyphen": "-"}
_GAPS |= dict.fromkeys(("td", "th", "text:s"), " ") | dict.fromkeys(_LINES.split(), "\n")
_GAPS |= dict.fromkeys(_PARAGRAPHS.split(), "\n\n")
# Of a page that is not in UTF-8.
_CHARSET = re.compile(rb"""(?:charset|encoding) *= *["']?([\w.:-]+)""")
# The line of times of a cue, with the number or the name before it; a remark; a tag.
_CUE = re.compile(r"(?:^\d+ *\n|(?<=\n\n).+\n)?^.*-->.*\n?", re.MULTILINE)
_NOTE = re.compile(r"(?<=\n\n)NOTE\b.*?(?:\n\n|\Z)", re.DOTALL)
_CUE_TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")


class _Markup(HTMLParser):
    """Collects the text of HTML, or of the XML of Word and OpenDocument: that within a tag, "" for all."""

    def __init__(self, within: str = "") -> None:
        super().__init__()
        # For the open elements of each tag: the part with which one begins that is left out.
        self._within, self._parts, self._open = within, [""], defaultdict[str, list[int]](list)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        style = (dict(attrs).get("style") or "").replace(" ", "")
        is_hidden = tag in _SKIPPED.split() or ("hidden", None) in attrs or "display:none" in style
        self._open[tag].append(len(self._parts) if is_hidden else 0)
        if tag in _GAPS and not (_GAPS[tag] == " " and self._parts[-1][-1:].isspace()):
            self._parts.append(_GAPS[tag])

    def handle_endtag(self, tag: str) -> None:
        if self._open[tag] and (start := self._open[tag].pop()):
            del self._parts[start:]
        if _GAPS.get(tag) == "\n\n":
            self._parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        # Word has a tag for each tab and each line, and every space counts.
        if not self._open["pre"] and self._within != "w:t":
            data = re.sub(r"\s+", " ", data)
            data = data.lstrip(" ") if self._parts[-1].endswith((" ", "\n")) else data
        if data and (not self._within or self._open[self._within]):
            self._parts.append(data)

    def text(self, markup: bytes) -> str:
        self.feed(_decoded(markup).replace("\xad", ""))
        self.close()
        return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", "".join(self._parts))).strip()


def _decoded(data: bytes) -> str:
    """Decodes UTF-8, UTF-16 with a byte order mark, or the encoding that a page names; line ends are LF."""
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        if not (named := _CHARSET.search(data[:2048])):
            raise
        text = data.decode(named[1].decode())
    return text.replace("\r\n", "\n").replace("\r", "\n")


def unpacked(archive: zipfile.ZipFile, names: Sequence[str]) -> Iterator[bytes]:
    """Returns files of an archive, read one by one; raises ValueError if they are too large."""
    if (size := sum(archive.getinfo(name).file_size for name in names)) > MAX_UNPACKED:
        raise ValueError(f"has {size:,} bytes, more than {MAX_UNPACKED:,}; should be unpacked")
    return map(archive.read, names)


def _epub(data: bytes) -> str:
    """Reads the pages of a book in the order of its spine."""
    book = zipfile.ZipFile(io.BytesIO(data))
    container = ElementTree.fromstring(next(unpacked(book, ["META-INF/container.xml"])))
    package_name = container.findall(".//{*}rootfile")[0].attrib["full-path"]
    package = ElementTree.fromstring(next(unpacked(book, [package_name])))
    items = {item.get("id"): item.get("href", "") for item in package.findall(".//{*}item")}
    hrefs = [items.get(each.get("idref"), "") for each in package.findall(".//{*}itemref")]
    named = (normpath(join(dirname(package_name), unquote(href))) for href in hrefs)
    pages = [page for page in named if page in book.NameToInfo]
    locks = "META-INF/encryption.xml"
    # Fonts are encrypted in books without protection, too.
    if locks in book.NameToInfo and any(p.encode() in book.read(locks) for p in pages):
        raise ValueError("is protected; should be a book without protection against copies")
    return "\n\n".join(_Markup().text(page) for page in unpacked(book, pages))


def _fiction_book(data: bytes) -> str:
    """Returns the text of the parts `body`. Unlike in a page, a title is a heading, a style an emphasis."""
    text = re.sub(r"(?<=<)(/?)title(?=[\s>])", r"\1header", _decoded(data))
    return _Markup("body").text(re.sub(r"(?<=<)(/?)style(?=[\s>])", r"\1em", text).encode())


def _office(data: bytes, part: str, within: str) -> str:
    return _Markup(within).text(*unpacked(zipfile.ZipFile(io.BytesIO(data)), [part]))


def _pdf(data: bytes) -> str:
    import pypdf

    # It warns about each irregularity of a file.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    pages = pypdf.PdfReader(io.BytesIO(data)).pages
    return "\n\n".join(page.extract_text().strip() for page in pages)


def _notebook(data: bytes) -> str:
    """Returns the sources of the cells of a Jupyter notebook."""
    sources = [cell["source"] for cell in json.loads(data)["cells"]]
    return "\n\n".join("".join(source).strip() for source in sources)


def _subtitles(data: bytes) -> str:
    """Returns the lines of the cues of subtitles."""
    text = _NOTE.sub("", re.sub(r"[ \t]+$", "", _decoded(data), flags=re.MULTILINE))
    shown = (unescape(_CUE_TAG.sub("", cue)).split("\n") for cue in _CUE.split(text)[1:])
    cues = [[" ".join(line.split()) for line in cue if line.strip()] for cue in shown]
    pairs = list(pairwise([[], *filter(None, cues)]))
    # Subtitles that scroll repeat lines of the cue before; in others somebody says the same again.
    does_scroll = 4 * sum(a != b and b[0] in a for a, b in pairs) > len(pairs)
    return "\n".join(line for a, b in pairs for line in b if not (does_scroll and line in a))


FORMATS: dict[str, Callable[[bytes], str]] = {
    ".epub": _epub,
    ".fb2": _fiction_book,
    ".docx": lambda data: _office(data, "word/document.xml", "w:t"),
    ".odt": lambda data: _office(data, "content.xml", "office:body"),
    ".pdf": _pdf,
    **dict.fromkeys((".html", ".htm", ".xhtml"), lambda data: _Markup().text(data)),
    ".ipynb": _notebook,
    **dict.fromkeys((".srt", ".vtt"), _subtitles),
}
