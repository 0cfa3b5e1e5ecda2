"""Rows of files that other programs wrote, and everything that can be wrong with them."""

import csv
import gzip
import io
import json
import sys
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from minigpt.corpus import rows, text_files
from minigpt.corpus.documents import ingest
from minigpt.corpus.rows import Faults, open_rows
from minigpt.corpus.text_files import TextFiles, read_texts
from minigpt.errors import UserError

TEXTS = ["one", 'two, "quoted"\nand a second\rline', "drei ä ☃", "\ufefffour\r\n"]


def read(*paths, field=None):
    documents = ingest(TextFiles(paths, field=field).pieces())
    return [documents.text[start:stop].decode() for start, stop in documents.spans]


def problems(*paths, field=None):
    """The problems, without the names of folders; the same ones before and while the text is read."""
    files = TextFiles(paths, field=field)
    with pytest.raises(UserError) as found:
        list(files.pieces())
    return [p.replace(str(Path(paths[0]).parent) + "/", "") for p in found.value.problems]


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def json_lines(texts, name="text"):
    return "".join(json.dumps({"id": n, name: text}) + "\n" for n, text in enumerate(texts))


def separated(texts, name="text", **dialect):
    file = io.StringIO(newline="")
    csv.writer(file, **dialect).writerows([["id", name], *enumerate(texts)])
    return file.getvalue()


def save(folder: Path, kind: str, texts=TEXTS, name="text") -> Path:
    """Writes texts with the program that usually writes the format."""
    path = folder / f"a{kind}"
    table = pyarrow.table({"id": range(len(texts)), name: texts})
    match kind:
        case ".parquet":
            pyarrow.parquet.write_table(table, path, row_group_size=3)
        case ".arrow":
            with pyarrow.ipc.new_file(path, table.schema) as file:
                file.write(table)
        case ".csv":
            write(path, "\ufeff" + separated(texts, name))
        case ".tsv":
            write(path, separated(texts, name, delimiter="\t"))
        case ".json":
            write(path, json.dumps([{"id": 1, name: text} for text in texts], indent=1))
        case ".jsonl" | ".ndjson":
            write(path, "\ufeff" + json_lines(texts, name) + "\n\n")
        case ".jsonl.gz" | ".CSV.gz":
            content = json_lines(texts, name) if "json" in kind else separated(texts, name)
            write(path, gzip.compress(content.encode()))
        case ".csv.zst" | ".jsonl.zst":
            content = (json_lines if "json" in kind else separated)(texts, name).encode()
            write(path, b"".join(zstandard.compress(part) for part in (content[:9], content[9:])))
    return path


KINDS = [".parquet", ".arrow", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".jsonl.gz"]
KINDS += [".CSV.gz", ".csv.zst", ".jsonl.zst"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_a_document(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(rows, "_ROWS_AT_ONCE", 2)
    path = save(tmp_path, kind)
    assert read(path) == TEXTS
    assert read(save(tmp_path, kind, name="review")) == TEXTS
    for block in (1, 3):
        monkeypatch.setattr(rows, "BLOCK_BYTES", block)
        assert read(path, field="review") == TEXTS
    numbers = [number for number, _ in open_rows(path, Faults(path))]
    # The header is the first row of CSV.
    first = 2 if kind.lower()[:4] in (".csv", ".tsv") else 1
    assert numbers == list(range(first, first + 4))


def test_the_delimiter_of_csv_is_that_of_its_header(tmp_path):
    assert read(write(tmp_path / "a.csv", separated(TEXTS, delimiter=";"))) == TEXTS


def test_lines_of_csv_may_end_with_cr(tmp_path):
    content = separated(TEXTS, lineterminator="\r")
    path = write(tmp_path / "a.csv", content)
    assert read(path) == TEXTS and read(write(path, content.rstrip())) == TEXTS
    assert problems(write(path, "text,n\ra,1\rb\r")) == [
        "a.csv: row 3: has more or fewer values than the header: 1, not 2"
    ]


def test_zst_and_md_are_text_too(tmp_path):
    text = "ä line\n" * 300_000
    whole = write(tmp_path / "a.txt.zst", zstandard.compress(text.encode()))
    assert read(whole) == [text]
    assert read(write(tmp_path / "b.md", "# Title")) == ["# Title"]
    cut = write(tmp_path / "cut.txt.zst", whole.read_bytes()[:-3])
    (line,) = problems(cut)
    assert line.startswith("cut.txt.zst: broken .zst file: ")
    (line,) = problems(write(tmp_path / "no.txt.zst", b"plain"))
    assert line.startswith("no.txt.zst: broken .zst file: ")


def test_a_folder_of_datasets_is_read_by_its_state(tmp_path):
    saved = datasets.Dataset.from_dict({"id": range(4), "review": TEXTS})
    saved.save_to_disk(tmp_path / "saved", num_shards=2)
    # What `map` leaves there.
    save(tmp_path / "saved", ".arrow", ["cached"])
    assert read(tmp_path / "saved") == TEXTS
    both = datasets.DatasetDict(train=saved.select([0, 1]), test=saved.select([2]))
    both.save_to_disk(tmp_path / "both")
    assert read(tmp_path / "both" / "train") == TEXTS[:2]
    # In the order of the names, as every folder.
    assert read(tmp_path / "both") == [TEXTS[2], *TEXTS[:2]]
    (tmp_path / "saved" / "data-00001-of-00002.arrow").unlink()
    assert problems(tmp_path / "saved") == ["saved/data-00001-of-00002.arrow: no such file"]
    # Another program's state.json.
    write(tmp_path / "both" / "test" / "state.json", '{"_data_files": [3]}')
    assert read(tmp_path / "both") == TEXTS[:2]


def test_the_column_is_named_once(tmp_path, messages):
    files = [save(tmp_path, kind, name="review") for kind in (".csv", ".jsonl", ".parquet")]
    assert len(read_texts(files)) == 12
    assert messages() == [f"{files[0]} and 2 more: the texts are those of the column 'review'"]
    assert len(read_texts(files, field="review")) == 12 and messages() == []


def test_a_column_that_is_not_there_or_not_the_only_one(tmp_path):
    two = write(tmp_path / "two.csv", "a,b,1\nx,y,2\n")
    names = "'a', 'b'"
    assert problems(two) == [f"two.csv: no column 'text'; data.field: one of {names}"]
    table = save(tmp_path, ".parquet")
    assert problems(two, table, field="c") == [
        f"two.csv: no column 'c'; data.field: one of {names}",
        "a.parquet: no column 'c'; data.field: one of 'text'",
    ]
    # Objects of JSON need not have the same names.
    lines = write(tmp_path / "a.jsonl", '{"a": "x"}\n{"c": "y"}\n{"a": "z"}\n')
    assert problems(lines, field="c") == [
        "a.jsonl: row 1 and 1 more row: 'c' should be a string: missing"
    ]


def test_all_problems_of_all_files_at_once(tmp_path):
    many = '{"text": null}\n' * 313
    bad = (
        b'{"text": "\xff"}\n{"text": "a"}\n[1]\n{"text": "\\ud800"}\n{"text": "\\u0000"}\n{"text"\n'
    )
    number = {"text": ["a", "b"], "n": [1, 2]}
    pyarrow.parquet.write_table(pyarrow.table(number), tmp_path / "n.parquet")
    whole = (tmp_path / "n.parquet").read_bytes()
    invalid = pyarrow.array([b"a", b"\xff", b"c"]).view(pyarrow.string())
    pyarrow.parquet.write_table(pyarrow.table({"text": invalid}), tmp_path / "u.parquet")
    files = {
        "many.jsonl": many,
        "bad.jsonl": bad,
        "empty.jsonl": "",
        "empty.csv": "",
        "header.csv": "text,n\n",
        "open.csv": 'text,n\na,1\n"b,2\nc,3\n',
        "ragged.csv": 'text,n\na\nb,2\nc,3,4\n"d"d,5\n',
        "twice.csv": "text,text\na,b\n",
        "nul.csv": b"text,n\n\0,1\n",
        "latin.csv": b"text,n\n\xe4,1\n",
        "object.json": json.dumps({"data": [{"text": "a"}]}, indent=1),
        "array.json": '[{"text": "a"} 1]',
        "cut.parquet": whole[:-20],
        "cut.jsonl.gz": gzip.compress(b'{"text": "a"}\n')[:-3],
        "wide.jsonl": '{"text": "a"}'.encode("utf-16"),
        "no_bom.jsonl": '{"text": "a"}\n{"text": "b"}\n'.encode("utf-16-le"),
        "cut.arrow": b"ARROW1",
        "essay.docx": b"PK\x03\x04\x14\x00",
        "letter.txt": rb"{\rtf1\ansi Dear Ana}",
        "paper.pdf": b"%PDF-1.7\n%\xe2\xe3",
    }
    paths = [write(tmp_path / name, content) for name, content in files.items()]
    found = problems(*paths, tmp_path / "u.parquet")
    expected = [
        "many.jsonl: row 1 and 312 more rows: 'text' should be a string: None",
        "bad.jsonl: row 1: not valid UTF-8: invalid start byte at byte 10 of the line; if it is in Latin-1",
        'bad.jsonl: row 3: should be an object like {"text": "..."}: [1]',
        "bad.jsonl: row 4 and 1 more row: 'text' should contain no NUL and no half of a surrogate pair",
        "bad.jsonl: row 6: not valid JSON: Expecting ':' delimiter: column 8",
        "empty.jsonl: has no rows; should contain text",
        "empty.csv: empty; should contain text",
        "header.csv: has no rows; should contain text",
        "open.csv: row 3: a quote is not closed",
        "ragged.csv: row 2 and 1 more row: has more or fewer values than the header: 1, not 2",
        "ragged.csv: row 5: ',' expected after '\"'",
        "twice.csv: the header names a column twice: ['text', 'text']",
        "nul.csv: binary file: NUL at byte 7 (line 2); should be text in UTF-8",
        "latin.csv: not valid UTF-8 at byte 7 (line 2): invalid continuation byte; if it is in Latin-1, ",
        "object.json: an object on several lines; should be an array of objects",
        "array.json: not valid JSON: Expecting ',' delimiter: line 1 column 16",
        "cut.parquet: not a readable .parquet file: Parquet magic bytes not found",
        "cut.jsonl.gz: broken .gz file: Compressed file ended before the end-of-stream marker",
        "wide.jsonl: not valid UTF-8 at byte 0 (line 1); it looks like UTF-16: convert it",
        "no_bom.jsonl: not valid UTF-8; it looks like UTF-16: convert it with: iconv ",
        "cut.arrow: not a readable .arrow file: ",
        "essay.docx: a ZIP archive, such as .docx, .odt and .epub are; should be text: save or export it",
        "letter.txt: a document in Rich Text Format; should be text: save or export it as .txt",
        "paper.pdf: a PDF; should be text: save or export it as .txt",
        "u.parquet: row 2: not valid UTF-8: 'utf-8' codec can't decode byte 0xff in position 0",
    ]
    assert [line[: len(e)] for line, e in zip(found, expected, strict=True)] == expected
    # Before anything is logged or written.
    with pytest.raises(UserError) as early:
        read_texts(paths)
    assert len(early.value.problems) == len(found) - 1


def test_without_pyarrow(tmp_path, monkeypatch):
    paths = [write(tmp_path / name, b"") for name in ("a.parquet", "b.parquet")]
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (line,) = problems(*paths)
    assert line.startswith(".parquet: pyarrow is not installed: ")
    assert "pip install" in line and "pyarrow" in line.partition("pip install")[2]


def test_large_files_do_not_take_memory(tmp_path):
    """200,000 rows of one column, in one row group: 20 MB that are never in memory at once."""
    texts = pyarrow.array([f"{number:>100}" for number in range(200_000)])
    table = pyarrow.table({"text": texts, "unused": texts})
    pyarrow.parquet.write_table(
        table, tmp_path / "a.parquet", use_dictionary=False, compression="none"
    )
    del table, texts
    before = pyarrow.total_allocated_bytes()
    highest = 0
    for count, _ in enumerate(rows.open_texts(tmp_path / "a.parquet", None, Faults(Path("a")))):
        if count % 1000 == 0:
            highest = max(highest, pyarrow.total_allocated_bytes() - before)
    assert count == 199_999 and highest < 5_000_000


def test_a_value_of_csv_may_be_large(tmp_path):
    text = "long " * 100_000
    assert read(write(tmp_path / "a.csv", separated([text, "b"]))) == [text, "b"]


def test_the_fingerprint_depends_on_column_and_format(tmp_path):
    path = write(tmp_path / "a.csv", "text,other\na,b\n")
    named, other = (TextFiles([path], field=name).fingerprint() for name in ("text", "other"))
    plain = TextFiles([write(tmp_path / "a.txt", path.read_bytes())]).fingerprint()
    assert len({named, other, plain, TextFiles([path]).fingerprint()}) == 4
    assert (
        TextFiles([write(tmp_path / "b.csv", path.read_bytes())], field="text").fingerprint()
        == named
    )


def test_a_passage_is_found_in_its_row(tmp_path):
    path = save(tmp_path, ".csv")
    assert TextFiles([path]).find(b'"quoted"\nand') == (path, "row 3")
    assert TextFiles([write(tmp_path / "a.txt", "a\nb\nc")]).find(b"c") == (
        tmp_path / "a.txt",
        "line 3",
    )


@pytest.fixture
def standard_input(cache, monkeypatch):
    """Sets what standard input contains."""
    text_files.standard_input.cache_clear()

    def contains(content: bytes):
        text_files.standard_input.cache_clear()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    yield contains
    text_files.standard_input.cache_clear()


def test_standard_input_is_kept_under_its_hash(standard_input, cache, monkeypatch):
    standard_input("plain ä".encode())
    assert read("-") == ["plain ä"] == read("-")
    kept = text_files.recorded_path("-")
    assert Path(kept).parent == cache / "stdin" and read(kept) == ["plain ä"]
    before = TextFiles(["-"]).fingerprint()
    standard_input("plain ä".encode())
    assert TextFiles(["-"]).fingerprint() == before == TextFiles([kept]).fingerprint()
    standard_input(json_lines(TEXTS).encode())
    assert read("-") == TEXTS
    assert len(list((cache / "stdin").iterdir())) == 2
    for content in (b"", None):
        standard_input(content or b"")
        if content is None:
            monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(UserError, match=r"-: standard input is (empty|a terminal); should"):
            TextFiles(["-"])
