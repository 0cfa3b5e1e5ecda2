"""The texts of documents: books, pages, reports, notebooks and subtitles. Nothing is written to the disk.

A new kind of document is a function in `FORMATS`, from the bytes of a file to its text. Any exception means
that the file cannot be read.
"""

import codecs
import io
import json
import logging
import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

# The files of an archive may have so many bytes: a few bytes can become gigabytes.
MAX_UNPACKED = 1 << 28
_SKIPPED = "title script style template noscript svg nav w:ppr w:rpr office:annotation text:tracked-changes"
_PARAGRAPHS = (
    "p h1 h2 h3 h4 h5 h6 div pre blockquote ul ol dl table hr section article header footer main "
)
_PARAGRAPHS += "aside figure w:p text:p text:h"
_LINES = "br li dt dd tr figcaption w:br w:cr text:line-break"
# What stands for a tag in the text.
_GAPS = {"td": " ", "th": " ", "w:tab": "\t", "text:tab": "\t", "text:s": " "}
_GAPS |= dict.fromkeys(_LINES.split(), "\n") | dict.fromkeys(_PARAGRAPHS.split(), "\n\n")
_CHARSET = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
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

    def text(self, markup: bytes) -> str:
        self.feed(_decoded(markup))
        self.close()
        return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", "".join(self._parts))).strip()


def _decoded(data: bytes) -> str:
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
    package = ElementTree.fromstring(book.read(package_name))
    items = {item.get("id"): item.get("href", "") for item in package.findall(".//{*}item")}
    hrefs = [items.get(each.get("idref"), "") for each in package.findall(".//{*}itemref")]
    paths = [posixpath.join(posixpath.dirname(package_name), unquote(href)) for href in hrefs]
    # Each page once, also if the spine has it often.
    pages = [
        name for name in dict.fromkeys(map(posixpath.normpath, paths)) if name in book.NameToInfo
    ]
    return "\n\n".join(_Markup().text(book.read(name)) for name in pages)


def _pdf(data: bytes) -> str:
    import pypdf

    # It warns about each irregularity of a file.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("the file is encrypted")
    return "\n\n".join(page.extract_text().strip() for page in reader.pages)


def _notebook(data: bytes) -> str:
    """Returns the sources of the cells of a Jupyter notebook."""
    sources = [cell["source"] for cell in json.loads(_decoded(data))["cells"]]
    return "\n\n".join("".join(source).strip() for source in sources)


def _subtitles(data: bytes) -> str:
    """Returns the lines of subtitles. A cue is lines after a line of times, up to a blank line."""
    found: list[str] = []
    for block in re.split(r"\n\s*\n", _decoded(data).replace("\r\n", "\n")):
        shown = block.partition("-->")[2].split("\n")[1:]
        # Subtitles that scroll repeat the lines before.
        lines = (_CUE_TAG.sub("", line).strip() for line in shown)
        found += (line for line in lines if line and line not in found[-2:])
    return "\n".join(found)


FORMATS: dict[str, Callable[[bytes], str]] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), lambda data: _Markup().text(data)),
    ".epub": _epub,
    ".docx": lambda data: _Markup("w:t").text(archive(data).read("word/document.xml")),
    ".odt": lambda data: _Markup("office:body").text(archive(data).read("content.xml")),
    ".pdf": _pdf,
    ".ipynb": _notebook,
    **dict.fromkeys((".srt", ".vtt"), _subtitles),
}
