"""The user's files: how they are found and read, and all problems that are reported."""

import gzip
import os
from pathlib import Path

import pytest

from minigpt.corpus import rows
from minigpt.corpus.documents import ingest
from minigpt.corpus.text_files import TextFiles
from minigpt.errors import UserError


def read(*paths, separator=None):
    documents = ingest(TextFiles(paths, separator).pieces())
    return [documents.text[start:stop].decode() for start, stop in documents.spans]


def problems(*paths, separator=None):
    with pytest.raises(UserError) as first:
        TextFiles(paths, separator).fingerprint()
        ingest(TextFiles(paths, separator).pieces())
    return first.value.problems


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_folder_gives_every_text_below_sorted(tmp_path, caplog):
    write(tmp_path / "b.txt", "bee")
    write(tmp_path / "a" / "deep" / "z.txt", "zed")
    write(tmp_path / "a" / "notes.md", "em")
    write(tmp_path / "a" / "rows.jsonl.gz", gzip.compress(b'{"text": "row"}'))
    # Files of settings are called .json, too.
    for name in ("skipped.bin", "settings.json", "text.gz"):
        write(tmp_path / "a" / name, "no")
    with caplog.at_level("INFO", "minigpt"):
        assert read(tmp_path) == ["zed", "em", "row", "bee"]
    assert caplog.messages[:1] == [f"{tmp_path}: 4 of 7 files read; not read: .bin, .gz, .json"]


def test_globs_and_repeated_names(tmp_path):
    one, two = write(tmp_path / "1.txt", "one"), write(tmp_path / "2.txt", "two")
    assert read(tmp_path / "*.txt") == ["one", "two"]
    # A file that is named twice is read once.
    assert read(two, tmp_path, one, tmp_path / "?.txt") == ["two", "one"]


def link(path: Path, target: str | Path, **options) -> Path:
    path.symlink_to(target, **options)
    return path


@pytest.fixture
def private(tmp_path):
    """A folder with hidden files, and with links of every kind."""
    secret = write(tmp_path / "outside" / "secret.txt", "secret")
    folder = tmp_path / "folder"
    write(folder / "a.txt", "a")
    write(folder / "sub" / "b.txt", "b")
    for name in (".env.txt", ".hid/c.txt", ".hid/deep/d.txt", ".git/e.txt", "sub/.f.txt"):
        write(folder / name, "hidden")
    write(folder / "sub" / ".git" / "HEAD", "not a text file")
    for name in ("config.toml", "metrics.jsonl", "more/license.txt"):
        write(folder / "sub" / "run" / name, '{"text": "c"}')
    link(folder / "out.txt", secret)
    link(folder / "sub" / "relative.txt", "../../outside/secret.txt")
    link(folder / "outside", secret.parent)
    link(folder / "broken_out.txt", tmp_path / "missing.txt")
    link(folder / "inside.txt", "sub/b.txt")
    link(folder / "same", "sub")
    link(folder / "circle", ".")
    return folder


def test_hidden_files_and_links_out_of_a_folder_are_skipped(private):
    assert read(private) == ["a", "b"]


def test_hidden_files_and_links_that_are_named_are_read(private):
    for name in (".env.txt", ".hid", ".h*/c.txt", ".git/e.txt", "sub/.f.txt"):
        assert set(read(private / name)) == {"hidden"}, name
    assert read(private / "out.txt") == read(private / "outside") == ["secret"]
    assert read(link(private.parent / "alias", private)) == ["a", "b"]
    assert read(private / "sub" / "run") == ["c", '{"text": "c"}']
    assert TextFiles([private, private / ".env.txt", private / "outside"]).read().bytes == 14


def test_the_matches_of_a_glob_do_not_lead_out_of_its_folder(private, monkeypatch):
    assert read(private / "*.txt") == ["a", "b"]
    # A glob names what it matches, also files in a run directory and the directory itself.
    assert read(private / "**" / "*.txt") == ["a", "b", '{"text": "c"}']
    assert read(private / "*") == ["a", "b"]
    monkeypatch.chdir(private)
    assert read("*.txt") == read(".") == ["a", "b"]
    monkeypatch.chdir(private / "sub")
    assert read("*") == ["b", "c", '{"text": "c"}']
    assert read("..") == ["a", "b"]
    assert problems("*e.txt") == ("*e.txt: no such file or folder",)


def test_broken_links(tmp_path):
    write(tmp_path / "a.txt", "a")
    broken = link(tmp_path / "b.txt", "missing.txt")
    circle = link(tmp_path / "c.txt", "c.txt")
    expected = tuple(f"{path}: not a regular file" for path in (broken, circle))
    assert problems(tmp_path) == expected
    link(tmp_path / ".d.txt", "missing.txt")
    assert problems(tmp_path) == expected


def test_byte_order_mark_is_dropped(tmp_path):
    assert read(write(tmp_path / "a.txt", b"\xef\xbb\xbfhi \xef\xbb\xbf")) == ["hi \ufeff"]


@pytest.mark.parametrize("block", [1, 2, 1000])
def test_every_line_end_becomes_lf(tmp_path, monkeypatch, block):
    monkeypatch.setattr(rows, "BLOCK_BYTES", block)
    assert read(write(tmp_path / "a.txt", "ä\r\n\r\nb\rc\nd\r")) == ["ä\n\nb\nc\nd\n"]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
def test_separator_for_any_block_size(tmp_path, monkeypatch, block):
    monkeypatch.setattr(rows, "BLOCK_BYTES", block)
    path = write(tmp_path / "a.txt", "<|e|>öne<|e|><|e|>two <|e<|e|>\n<|e|>three")
    assert read(path, separator="<|e|>") == ["öne", "two <|e", "three"]
    assert read(path) == [path.read_text("utf-8")]


def test_the_fingerprint_depends_on_content_not_on_names_or_dates(tmp_path):
    path = write(tmp_path / "a.txt", "aaaa")
    before = TextFiles([path]).fingerprint()
    status = path.stat()
    write(path, "aaab")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert TextFiles([path]).fingerprint() != before
    assert TextFiles([write(tmp_path / "other", "aaaa")]).fingerprint() == before
    # The same bytes in two files are different documents.
    two = [write(tmp_path / "1", "aa"), write(tmp_path / "2", "aa")]
    assert TextFiles(two).fingerprint() != before


def test_an_empty_path_is_not_the_working_folder(tmp_path, monkeypatch):
    write(tmp_path / "a.txt", "text")
    monkeypatch.chdir(tmp_path)
    assert problems("") == ("'': no such file or folder",)
    assert read(".") == ["text"]
