"""The texts of documents: books, pages, reports, notebooks and subtitles. Nothing is written to the disk.

A new kind of document is a function in `FORMATS`, from the bytes of a file to its text, or in `MARKED`,
from the text of a file. Any exception means that the file cannot be read.
"""

import io
import json
import logging
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from posixpath import dirname, join, normpath
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

# The files of an archive may have so many bytes: a few bytes can become gigabytes.
MAX_UNPACKED = 1 << 28
_SKIPPED = "title script style template noscript svg nav w:ppr w:rpr office:annotation text:tracked-changes"
_PARAGRAPHS = (
    "p h1 h2 h3 h4 h5 h6 div pre blockquote ul ol dl table hr section article header footer w:p "
)
_PARAGRAPHS += "main aside figure text:p text:h"
_LINES = "br li dt dd tr figcaption w:br w:cr text:line-break"
# What stands for a tag in the text.
_GAPS = {"td": " ", "th": " ", "w:tab": "\t", "text:tab": "\t", "text:s": " "}
_GAPS |= dict.fromkeys(_LINES.split(), "\n") | dict.fromkeys(_PARAGRAPHS.split(), "\n\n")
_CUE_TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")


class _Markup(HTMLParser):
    """Collects the text of HTML, or of the XML of Word and OpenDocument: that within a tag, "" for all."""

    def __init__(self, within: str = "") -> None:
        super().__init__()
        self._within, self._parts, self._open = within, [""], Counter[str]()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._open[tag] += 1
        if tag in _GAPS and not (_GAPS[tag] == " " and self._parts[-1][-1:].isspace()):
            self._parts.append(_GAPS[tag])

    def handle_endtag(self, tag: str) -> None:
        self._open[tag] = max(0, self._open[tag] - 1)
        if _GAPS.get(tag) == "\n\n":
            self._parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if any(map(self._open.__getitem__, _SKIPPED.split())):
            return
        # Word has a tag for each tab and each line, and every space counts.
        if not self._open["pre"] and self._within != "w:t":
            data = re.sub(r"\s+", " ", data)
            data = data.lstrip(" ") if self._parts[-1].endswith((" ", "\n")) else data
        if data and (not self._within or self._open[self._within]):
            self._parts.append(data)

    def text(self, markup: str) -> str:
        self.feed(markup)
        self.close()
        return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", "".join(self._parts))).strip()


def archive(data: bytes) -> zipfile.ZipFile:
    """Opens an archive in memory; raises ValueError if its files are too large."""
    opened = zipfile.ZipFile(io.BytesIO(data))
    if (size := sum(info.file_size for info in opened.infolist())) > MAX_UNPACKED:
        raise ValueError(f"has {size:,} bytes, more than {MAX_UNPACKED:,}; should be unpacked")
    return opened


def _epub(data: bytes) -> str:
    """Reads the pages of a book in the order of its spine."""
    book = archive(data)
    container = ElementTree.fromstring(book.read("META-INF/container.xml"))
    package_name = container.findall(".//{*}rootfile")[0].attrib["full-path"]
    package, folder = ElementTree.fromstring(book.read(package_name)), dirname(package_name)
    items = {item.get("id"): item.get("href", "") for item in package.findall(".//{*}item")}
    hrefs = [items.get(each.get("idref"), "") for each in package.findall(".//{*}itemref")]
    pages = (normpath(join(folder, unquote(href))) for href in hrefs)
    found = (book.read(page).decode("utf-8-sig") for page in pages if page in book.NameToInfo)
    return "\n\n".join(_Markup().text(page) for page in found)


def _office(data: bytes, part: str, within: str) -> str:
    return _Markup(within).text(archive(data).read(part).decode("utf-8-sig"))


def _pdf(data: bytes) -> str:
    import pypdf

    # It warns about each irregularity of a file.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    pages = pypdf.PdfReader(io.BytesIO(data)).pages
    return "\n\n".join(page.extract_text().strip() for page in pages)


def _notebook(text: str) -> str:
    """Returns the sources of the cells of a Jupyter notebook."""
    sources = [cell["source"] for cell in json.loads(text)["cells"]]
    return "\n\n".join("".join(source).strip() for source in sources)


def _subtitles(text: str) -> str:
    """Returns the lines of subtitles. A cue is lines after a line of times, up to a blank line."""
    found: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        shown = block.partition("-->")[2].split("\n")[1:]
        # Subtitles that scroll repeat the lines before.
        lines = (_CUE_TAG.sub("", line).strip() for line in shown)
        found += (line for line in lines if line and line not in found[-2:])
    return "\n".join(found)


FORMATS: dict[str, Callable[[bytes], str]] = {
    ".epub": _epub,
    ".docx": lambda data: _office(data, "word/document.xml", "w:t"),
    ".odt": lambda data: _office(data, "content.xml", "office:body"),
    ".pdf": _pdf,
}
MARKED: dict[str, Callable[[str], str]] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), lambda text: _Markup().text(text)),
    ".ipynb": _notebook,
    **dict.fromkeys((".srt", ".vtt"), _subtitles),
}
