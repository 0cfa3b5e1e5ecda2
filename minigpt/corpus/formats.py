"""The texts of documents: books, pages, reports, notebooks and subtitles. Nothing is written to the disk.

A new kind of document is a function in `FORMATS`, from the bytes of a file to its text. Any exception means
that the file cannot be read.
"""

import codecs
import io
import json
import posixpath
import re
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

# Larger parts of an archive are not unpacked: a few bytes can become gigabytes.
MAX_UNPACKED = 1 << 27
_SKIPPED = {"title", "script", "style", "template", "noscript", "svg", "nav"}
_SKIPPED |= {"w:ppr", "w:rpr", "office:annotation", "text:tracked-changes"}
_PARAGRAPHS = {
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "div",
    "pre",
    "blockquote",
    "ul",
    "ol",
    "dl",
}
_PARAGRAPHS |= {"table", "hr", "section", "article", "header", "footer", "main", "aside", "figure"}
_PARAGRAPHS |= {"w:p", "text:p", "text:h"}
_LINES = {"br", "li", "dt", "dd", "tr", "figcaption", "w:br", "w:cr", "text:line-break"}
_GAPS = {"td": " ", "th": " ", "w:tab": "\t", "text:tab": "\t", "text:s": " "}
_CHARSET = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_CUE_TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")


class _Markup(HTMLParser):
    """Collects the text of HTML, or of the XML of Word and OpenDocument.

    Args:
      within: the tag whose text is read; "" for all text.
    """

    def __init__(self, within: str = "") -> None:
        super().__init__()
        self._within, self._parts = within, [""]
        self._skipped = self._read = self._preformatted = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._count(tag, 1)
        self._separate(tag)

    def handle_endtag(self, tag: str) -> None:
        self._count(tag, -1)
        # A break has no content, and an item of a list ends where the next one begins.
        if tag in _PARAGRAPHS:
            self._separate(tag)

    def _count(self, tag: str, change: int) -> None:
        self._skipped = max(0, self._skipped + change * (tag in _SKIPPED))
        self._read = max(0, self._read + change * (tag == self._within))
        self._preformatted = max(0, self._preformatted + change * (tag == "pre"))

    def _separate(self, tag: str) -> None:
        separator = "\n\n" if tag in _PARAGRAPHS else "\n" if tag in _LINES else _GAPS.get(tag)
        is_blank = separator == " " and self._parts[-1][-1:].isspace()
        if separator and not self._skipped and not is_blank:
            self._parts.append(separator)

    def handle_data(self, data: str) -> None:
        if self._skipped or (self._within and not self._read):
            return
        # Word has a tag for each tab and each line, and every space counts.
        if not self._preformatted and self._within != "w:t":
            data = re.sub(r"\s+", " ", data)
            data = data.lstrip(" ") if self._parts[-1].endswith((" ", "\n")) else data
        if data:
            self._parts.append(data)

    def text(self, markup: str) -> str:
        self.feed(markup)
        self.close()
        return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", "".join(self._parts))).strip()


def decoded(data: bytes) -> str:
    """Returns text in UTF-8, in UTF-16 with a byte order mark, or in the encoding that HTML names."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        if not (named := _CHARSET.search(data[:2048])):
            raise
        return data.decode(named[1].decode())


def archive(data: bytes) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(data))


def unpacked(file: zipfile.ZipFile, name: str) -> bytes:
    """Returns a member of an archive; raises ValueError if it is too large."""
    if (size := file.getinfo(name).file_size) > MAX_UNPACKED:
        raise ValueError(f"{name!r} has {size:,} bytes; at most {MAX_UNPACKED:,} are unpacked")
    return file.read(name)


def _html(data: bytes) -> str:
    return _Markup().text(decoded(data))


def _docx(data: bytes) -> str:
    return _Markup("w:t").text(decoded(unpacked(archive(data), "word/document.xml")))


def _odt(data: bytes) -> str:
    return _Markup("office:body").text(decoded(unpacked(archive(data), "content.xml")))


def _epub(data: bytes) -> str:
    """Reads the pages of a book in the order of its spine."""
    book = archive(data)
    container = ElementTree.fromstring(unpacked(book, "META-INF/container.xml"))
    package_name = container.findall(".//{*}rootfile")[0].attrib["full-path"]
    package = ElementTree.fromstring(unpacked(book, package_name))
    items = {item.get("id"): item.get("href", "") for item in package.findall(".//{*}item")}
    spine = [items.get(each.get("idref"), "") for each in package.findall(".//{*}itemref")]
    folder = posixpath.dirname(package_name)
    names = [posixpath.normpath(posixpath.join(folder, unquote(href))) for href in spine]
    names = [name for name in names if name in set(book.namelist())]
    if "META-INF/encryption.xml" in book.namelist():
        # Fonts may be encrypted in books that can be read.
        encrypted = unquote(decoded(unpacked(book, "META-INF/encryption.xml")))
        if any(f'"{name}"' in encrypted for name in names):
            raise ValueError("the book is encrypted")
    if sum(book.getinfo(name).file_size for name in names) > MAX_UNPACKED:
        raise ValueError(f"has more than {MAX_UNPACKED:,} bytes of text")
    return "\n\n".join(_html(unpacked(book, name)) for name in names)


def _pdf(data: bytes) -> str:
    import logging

    import pypdf

    # It warns about each irregularity of a file.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("the file is encrypted")
    return "\n\n".join(page.extract_text().strip() for page in reader.pages)


def _notebook(data: bytes) -> str:
    """Returns the sources of the cells of a Jupyter notebook."""
    sources = [cell["source"] for cell in json.loads(decoded(data))["cells"]]
    return "\n\n".join("".join(source).strip() for source in sources)


def _subtitles(data: bytes) -> str:
    """Returns the lines of subtitles. A cue is lines after a line of times, up to a blank line."""
    found: list[str] = []
    for block in re.split(r"\n\s*\n", decoded(data).replace("\r\n", "\n")):
        lines = block.split("\n")
        times = next((number for number, line in enumerate(lines) if "-->" in line), len(lines))
        shown = (_CUE_TAG.sub("", line).strip() for line in lines[times + 1 :])
        # Subtitles that scroll repeat the line before.
        found += (line for line in shown if line and line not in found[-2:])
    return "\n".join(found)


FORMATS: dict[str, Callable[[bytes], str]] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), _html),
    ".epub": _epub,
    ".docx": _docx,
    ".odt": _odt,
    ".pdf": _pdf,
    ".ipynb": _notebook,
    **dict.fromkeys((".srt", ".vtt"), _subtitles),
}
