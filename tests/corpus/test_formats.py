"""Documents that other programs wrote: books, pages, reports, notebooks, subtitles, archives."""

import io
import json
import sys
import zipfile

import pypdf
import pytest
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

import minigpt
from minigpt.corpus import formats, rows
from minigpt.corpus.text_files import TextFiles
from minigpt.errors import UserError
from minigpt.runs.run import open_run_corpus
from tests.cli.running import SMALL, called, refused
from tests.corpus.test_text_files import read, write
from tests.tiny import tiny_text

PAGE = """<!doctype html><html><head><title>No</title><style>p {}</style></head><body>
<nav><a href="#">Menu</a></nav><h1>The  Hill</h1>
<p>Ana &amp; <b>Béla</b><br>sat.</p><script>var p = "<p>no</p>";</script>
<ul><li>one</li><li>two</li></ul><table><tr><td>a</td><td>b</td></tr></table><pre>x = [
  1]</pre></body></html>"""
SEEN = "The Hill\n\nAna & Béla\nsat.\n\none\ntwo\n\na b\n\nx = [\n  1]"
SPINE = '<itemref idref="b"/><itemref idref="a"/>'


def zipped(files: dict[str, str | bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def epub(
    spine: str = SPINE, chapter: str | bytes = PAGE, more: dict[str, str] | None = None
) -> bytes:
    package = f"""<package xmlns="http://www.idpf.org/2007/opf"><manifest>
        <item id="a" href="a%20b.xhtml"/><item id="b" href="c.xhtml"/></manifest>
        <spine>{spine}</spine></package>"""
    container = '<container><rootfiles><rootfile full-path="book/p.opf"/></rootfiles></container>'
    files = {"META-INF/container.xml": container, "book/p.opf": package, "book/c.xhtml": chapter}
    return zipped({**files, "book/a b.xhtml": "<p>Last<br/>page</p>", **(more or {})})


def pdf(text: str, password: str = "") -> bytes:
    writer = pypdf.PdfWriter()
    page = writer.add_blank_page(200, 200)
    font = DictionaryObject({NameObject("/Type"): NameObject("/Font")})
    font |= {
        NameObject("/Subtype"): NameObject("/Type1"),
        NameObject("/BaseFont"): NameObject("/Courier"),
    }
    fonts = DictionaryObject({NameObject("/F"): font})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    stream = DecodedStreamObject()
    stream.set_data(f"BT /F 12 Tf 10 10 Td ({text}) Tj ET".encode())
    page[NameObject("/Contents")] = stream
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    found = io.BytesIO()
    writer.write(found)
    return found.getvalue()


DOCX = (
    '<w:body><w:p><w:pPr><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr>'
    "<w:r><w:t>The hill</w:t></w:r></w:p>\n"
    '<w:p><w:r><w:t xml:space="preserve">Ana  </w:t></w:r><w:r><w:tab/><w:t>&amp; B\xe9la</w:t>'
    "<w:br/><w:t>sat</w:t><w:instrText>PAGE</w:instrText></w:r></w:p></w:body>"
)
ODT = (
    "<office:document-content><office:automatic-styles><number:text>no</number:text>"
    '</office:automatic-styles><office:body><text:h>The hill</text:h><text:p>Ana<text:s text:c="2"/>sat'
    "<text:line-break/>down</text:p></office:body></office:document-content>"
)
FB2 = (
    '<?xml version="1.0" encoding="windows-1251"?>\n<FictionBook xmlns:l="http://www.w3.org/1999/xlink">'
    "<stylesheet>p {}</stylesheet><description><title-info><book-title>No</book-title><annotation>"
    "<p>No.</p></annotation></title-info></description>\n<body><title><p>Холм</p></title>"
    '<section id="a"><title><p>One</p>\n<p>The hill</p></title>\n<p>Ana <style name="it">sat</style>'
    "<a l:href='#n'>[1]</a>.</p><empty-line/><p>Down.</p><subtitle>* * *</subtitle><poem><stanza>\n"
    "<v>one</v>\n<v>two</v></stanza><text-author>Bela</text-author></poem></section></body>"
    '<body name="notes"><section id="n"><title><p>1</p></title><p>A note.</p></section></body>'
    '<binary id="cover.jpg" content-type="image/jpeg">/9j/4AAQ</binary></FictionBook>'
)
OF_FB2 = (
    "Холм\n\nOne\n\nThe hill\n\nAna sat[1].\n\nDown.\n\n* * *\n\none\ntwo\nBela\n\n1\n\nA note."
)
CELLS = [
    {"cell_type": "markdown", "source": ["# Title\n", "text"]},
    {"cell_type": "code", "source": "x = 1\n", "outputs": [{"text": "no"}]},
]
SRT = (
    "1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>Hello</i>\r\nthere\r\n\r\n2\r\n"
    "00:00:03,000 --> 00:00:04,000\r\n{\\an8}7\r\n"
)
VTT = (
    "WEBVTT\nKind: captions\n\nNOTE no\n\n00:01.000 --> 00:02.000 align:start\nHello\n\n"
    "00:03.000 --> 00:04.000\nHello\nyou"
)
# Text boxes are there twice, for older programs; moved text is there at both places.
BOX = "<w:txbxContent><w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:txbxContent>"
MOVED = (
    "<w:body><w:p><w:moveFrom><w:r><w:t>Ana</w:t><w:br/></w:r></w:moveFrom>"
    "<w:moveTo><w:r><w:t>Ana</w:t></w:r></w:moveTo></w:p><w:p><w:r><w:t>co</w:t>"
    "<w:noBreakHyphen/><w:t>operate</w:t></w:r></w:p><w:p><w:r><mc:AlternateContent>"
    f"<mc:Choice>{BOX}</mc:Choice><mc:Fallback>{BOX}</mc:Fallback></mc:AlternateContent></w:r></w:p></w:body>"
)
NOTED = (
    "<office:body><text:p>Ana<text:note><text:note-citation>1</text:note-citation><text:note-body>"
    "<text:p>A note.</text:p></text:note-body></text:note> sat<office:annotation><text:p>Why?</text:p>"
    "</office:annotation> down.</text:p></office:body>"
)
UNCLOSED = (
    "<nav>Menu<p>Gr\xfc\xdfe, A\xadna<div hidden><div>no</div>no</div>"
    '<p style="display: none">no</p><nav>no</nav>'
)
# Times follow a line at once, or are followed by a blank line.
LOOSE = (
    "WEBVTT\n\nfirst\n00:01.000 --> 00:02.000\nTom &amp; Jerry &lt;3&nbsp;x\n2\n00:02.000 --> 00:03.000\n\n"
    "Yes.\n\nNOTE no\nno\n\n00:03.000 --> 00:04.000\nYes."
)
SCROLLING = "".join(
    f"{n}\n00:00:0{n},000 --> 00:00:0{n},500\n{lines}\n\n"
    for n, lines in enumerate(["a", "a\nb", "b", "b\nc", "c", "c\nd"])
)
KINDS = {
    "book.epub": (epub(), f"{SEEN}\n\nLast\npage"),
    "book.fb2": (FB2.encode("cp1251"), OF_FB2),
    "wide.fb2": (FB2.encode("utf-16"), OF_FB2),
    "page.html": (PAGE, SEEN),
    "report.docx": (zipped({"word/document.xml": DOCX}), "The hill\n\nAna  \t& Béla\nsat"),
    "report.odt": (zipped({"content.xml": ODT}), "The hill\n\nAna sat\ndown"),
    "paper.pdf": (pdf("Ana sat on the hill."), "Ana sat on the hill."),
    "notebook.ipynb": (json.dumps({"cells": CELLS}), "# Title\ntext\n\nx = 1"),
    "film.srt": (SRT, "Hello\nthere\n7"),
    "film.vtt": (VTT, "Hello\nyou"),
    "moved.docx": (
        zipped({"word/document.xml": MOVED, "word/media/film.mp4": b"\0" * 999}),
        "Ana\n\nco-operate\n\nIn a box",
    ),
    "noted.odt": (zipped({"content.xml": NOTED}), "Ana sat down."),
    "latin.html": (f"<meta charset=iso-8859-1>{UNCLOSED}".encode("latin-1"), "Menu\n\nGrüße, Ana"),
    "latin.epub": (
        epub(chapter=f"<?xml version='1.0' encoding='ISO-8859-1'?>{UNCLOSED}".encode("latin-1")),
        "Menu\n\nGrüße, Ana\n\nLast\npage",
    ),
    "wide.epub": (epub(chapter=PAGE.encode("utf-16")), f"{SEEN}\n\nLast\npage"),
    "loose.VTT": (LOOSE, "Tom & Jerry <3 x\nYes.\nYes."),
    "scrolling.srt": (SCROLLING, "a\nb\nc\nd"),
    "wide.txt": ("\ufeffGrüße 😀\r\n".encode("utf-16-le"), "Grüße 😀\n"),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_text_of_a_document_is_read(tmp_path, name):
    content, text = KINDS[name]
    assert read(write(tmp_path / name, content)) == [text]


@pytest.mark.parametrize("block", [1, 3])
def test_utf16_in_any_block_size(tmp_path, monkeypatch, block):
    monkeypatch.setattr(rows, "BLOCK_BYTES", block)
    for encoding in ("utf-16-le", "utf-16-be"):
        assert read(write(tmp_path / "a.txt", "\ufeffG😀ü".encode(encoding))) == ["G😀ü"]


def test_a_zip_and_a_folder_have_the_same_texts(tmp_path, monkeypatch):
    files = {name: content for name, (content, _) in KINDS.items()}
    files |= {
        "rows.csv": "text\nrow\n",
        "no.bin": b"\0",
        ".hidden.txt": "no",
        "~$report.docx": "no",
        "empty.txt": "",
        "settings.json": "{}",
    }
    expected = sorted([text for _, text in KINDS.values()] + ["row"])
    for name, content in files.items():
        write(tmp_path / "folder" / name, content)
    assert sorted(read(tmp_path / "folder")) == expected
    assert sorted(read(write(tmp_path / "a.zip", zipped(files)))) == expected
    # Only what is read has to be small.
    monkeypatch.setattr(formats, "MAX_UNPACKED", 90)
    assert read(write(tmp_path / "film.zip", zipped({"film.mp4": b"\0" * 99, "a.txt": "a"}))) == [
        "a"
    ]
    # Nothing is written, and names that lead outside or are hidden are not read.
    names = ("../out.txt", "a/../../out.txt", "__MACOSX/b.txt", "._c.txt", "inner.zip")
    odd = write(tmp_path / "odd.zip", zipped({"/root.txt": "root", **dict.fromkeys(names, "no")}))
    before = sorted(tmp_path.rglob("*"))
    assert read(odd) == ["root"] and sorted(tmp_path.rglob("*")) == before


def locked(archive: bytes) -> bytes:
    """Sets the bit that says that the first member is encrypted."""
    data = bytearray(archive)
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


PROTECTED = {
    "META-INF/encryption.xml": '<encryption><CipherReference URI="book/c.xhtml"/></encryption>'
}
REFUSED = {
    "protected.epub": (epub(more=PROTECTED), "protected"),
    "empty.epub": (epub(spine=""), "no text"),
    "pictures.epub": (epub(spine='<itemref idref="b"/>', chapter="<p><img/></p>"), "no text"),
    "locked.epub": (epub(chapter=b"\x9c\xff" * 40), "not .epub"),
    "other.epub": (zipped({"a.txt": "a"}), "container.xml"),
    "cut.epub": (epub()[:-40], "not .epub"),
    "bomb.docx": (zipped({"word/document.xml": b"a" * 2000}), "more than 1,800"),
    "empty.docx": (zipped({"word/document.xml": "<w:p/>"}), "no text"),
    "locked.pdf": (pdf("secret", "password"), "decrypted"),
    "picture.pdf": (pdf(""), "no text"),
    "cut.pdf": (b"%PDF-1.4\n", "not .pdf"),
    "old.ipynb": ('{"worksheets": []}', "cells"),
    "old.srt": (b"1\n00:01,0 --> 00:02,0\nGr\xfc\xdfe\n", "utf-8"),
    "damaged.zip": (zipped({"a.txt": "text"}).replace(b"PK\x01\x02", b"PK\0\0"), "not .zip"),
    "locked.zip": (locked(zipped({"a.txt": "text"})), "encrypted"),
    "bomb.zip": (zipped({"a.txt": b"a" * 2000}), "more than 1,800"),
    "bombs.zip": (zipped({f"{n}.txt": b"a" * 900 for n in "abcd"}), "more than 1,800"),
    "other.zip": (zipped({"a.bin": "text"}), "no files"),
    "inner.zip": (zipped({"a\nb.txt": b"\xff"}), r"a\nb.txt: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_document_is_refused_in_one_line(tmp_path, monkeypatch, name):
    content, words = REFUSED[name]
    monkeypatch.setattr(formats, "MAX_UNPACKED", 1800)
    path = write(tmp_path / name, content)
    with pytest.raises(UserError) as found:
        list(TextFiles([path]).pieces())
    (line,) = found.value.problems
    assert line.startswith(str(path)) and "\n" not in line and words in line


def test_a_pdf_names_the_package_that_it_needs(tmp_path, monkeypatch):
    path = write(tmp_path / "a.pdf", pdf("text"))
    monkeypatch.setitem(sys.modules, "pypdf", None)
    monkeypatch.setattr(rows, "install_command", lambda extra: f"pip install {extra}")
    with pytest.raises(
        UserError,
        match=r"^\.pdf: pypdf is not installed \(extra documents\): pip install documents$",
    ):
        read(path)


def test_a_book_is_trained_on_and_evaluated(tmp_path, no_export, without_xla):
    chapter = "".join(f"<p>{line}</p>" for line in tiny_text().splitlines())
    write(tmp_path / "book.epub", epub(chapter=chapter))
    done = called(
        "train", "--text", "book.epub", "--base", "none", "--run", "run", *SMALL, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    run = minigpt.Run(tmp_path / "run")
    text = run.load_tokenizer().decode(open_run_corpus(run).train.ids)
    assert tiny_text()[:100].replace("\n", "\n\n") in text
    done = called("evaluate", "run", "--text", "book.epub", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["bytes"] == len(read(tmp_path / "book.epub")[0].encode())
    write(tmp_path / "cut.epub", epub()[:-40])
    (line,) = refused("train", "--text", "cut.epub", cwd=tmp_path)
    assert "cut.epub: not .epub" in line
