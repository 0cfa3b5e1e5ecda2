"""Rows of files that other programs wrote, and everything that can be wrong with them."""

import csv
import gzip
import io
import json
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from minigpt.corpus import rows
from minigpt.corpus.documents import ingest
from minigpt.corpus.text_files import TextFiles
from minigpt.errors import UserError

TEXTS = ["one", 'two, "quoted"\nand a second\rline', "drei ä ☃", "\ufefffour\r\n"]


def read(*paths, field=None):
    documents = ingest(TextFiles(paths, field=field).pieces())
    return [documents.text[start:stop].decode() for start, stop in documents.spans]


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
    # In files of text, every line end becomes LF.
    is_text = ".csv" in kind.lower() or kind == ".tsv"
    expected = [t.replace("\r\n", "\n").replace("\r", "\n") if is_text else t for t in TEXTS]
    assert read(path) == expected
    assert read(save(tmp_path, kind, name="review")) == expected
    for block in (1, 3):
        monkeypatch.setattr(rows, "BLOCK_BYTES", block)
        assert read(path, field="review") == expected


def test_a_folder_of_datasets_is_read_without_its_cache(tmp_path):
    saved = datasets.Dataset.from_dict({"id": range(4), "review": TEXTS})
    saved.save_to_disk(tmp_path / "saved", num_shards=2)
    # What `map` leaves there.
    save(tmp_path / "saved", ".arrow", ["cached"]).rename(tmp_path / "saved" / "cache-1f.arrow")
    assert read(tmp_path / "saved") == TEXTS
    both = datasets.DatasetDict(train=saved.select([0, 1]), test=saved.select([2]))
    both.save_to_disk(tmp_path / "both")
    assert read(tmp_path / "both" / "train") == TEXTS[:2]
    # In the order of the names, as every folder.
    assert read(tmp_path / "both") == [TEXTS[2], *TEXTS[:2]]


def test_the_column_is_named_once(tmp_path, messages):
    lines = write(tmp_path / "mixed.jsonl", '{"a": "x"}\n{"a": "z"}\n')
    # Objects of JSON need not have the same names.
    with pytest.raises(UserError, match="'c'"):
        read(lines, field="c")
    files = [save(tmp_path, kind, name="review") for kind in (".csv", ".jsonl", ".parquet")]
    assert len(TextFiles(files).read()) == 12
    assert messages() == [f"{files[0]} and 2 more: the texts are those of the column 'review'"]
    assert len(TextFiles(files, field="review").read()) == 12 and messages() == []


@pytest.mark.slow
def test_large_files_do_not_take_memory(tmp_path):
    """200,000 rows of one column, in one row group: 20 MB of which pyarrow never holds all."""
    texts = pyarrow.array([f"{number:>100}" for number in range(200_000)])
    table = pyarrow.table({"text": texts, "unused": texts})
    pyarrow.parquet.write_table(
        table, tmp_path / "a.parquet", use_dictionary=False, compression="none"
    )
    del table, texts
    file = rows.File(tmp_path / "a.parquet")
    before = pyarrow.total_allocated_bytes()
    highest = 0
    for count, _ in enumerate(rows.open_texts(file, None)):
        if count % 1000 == 0:
            highest = max(highest, pyarrow.total_allocated_bytes() - before)
    assert count == 199_999 and highest < 5_000_000


def test_a_value_of_csv_may_be_large(tmp_path):
    text = "long " * 100_000
    assert read(write(tmp_path / "a.csv", separated([text, "b"]))) == [text, "b"]


def test_the_delimiter_of_csv_is_that_of_its_header(tmp_path):
    content = separated(TEXTS[2:], delimiter=";")
    expected = ["drei ä ☃", "\ufefffour\n"]
    assert read(write(tmp_path / "a.csv", content)) == expected
    assert read(write(tmp_path / "mac.csv", "text,n\rone,1\rtwo,2\r")) == ["one", "two"]
    for header in ('"Title, text";text', "Price, all;text;n", 'sep=;\n"a";text,'):
        rest = "1;one,1" + ";" * header.endswith("n") + "\n"
        assert read(write(tmp_path / "c.csv", f"{header}\n{rest}")) == ["one,1"]
    # Blank lines before the header are skipped.
    assert read(write(tmp_path / "b.csv", "\r\n\n" + content)) == expected


@pytest.mark.parametrize("kind", [".parquet", ".arrow"])
def test_errors_of_pyarrow_are_one_line(tmp_path, monkeypatch, kind):
    path = save(tmp_path, kind)

    def fail(*_, **__):
        raise pyarrow.ArrowMemoryError("no memory\nmore")

    monkeypatch.setattr(pyarrow.parquet, "ParquetFile", fail)
    monkeypatch.setattr(pyarrow.ipc, "open_file", fail)
    with pytest.raises(UserError, match="no memory") as error:
        read(path)
    assert str(path) in str(error.value)


def test_the_fingerprint_depends_on_column_and_format(tmp_path):
    path = write(tmp_path / "a.csv", "text,other\na,b\n")
    named, other = (TextFiles([path], field=name).fingerprint() for name in ("text", "other"))
    plain = TextFiles([write(tmp_path / "a.txt", path.read_bytes())]).fingerprint()
    assert len({named, other, plain, TextFiles([path]).fingerprint()}) == 4
    assert (
        TextFiles([write(tmp_path / "b.csv", path.read_bytes())], field="text").fingerprint()
        == named
    )
