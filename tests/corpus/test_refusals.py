"""Files that cannot be read are refused in one line each, which names the file and the problem."""

import gzip
import json
import os
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from minigpt.corpus import rows
from minigpt.corpus.dialogues import Dialogues
from minigpt.corpus.text_files import PairFiles, TextFiles
from minigpt.corpus.token_ids import IdFiles
from minigpt.errors import UserError

ASKED = {"role": "user", "content": "q"}
ANSWERED = {"role": "assistant", "content": "a"}
DIALOGUE = json.dumps({"messages": [ASKED, ANSWERED]}) + "\n"


def parquet(**columns) -> bytes:
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue().to_pybytes()


def messages(*turns) -> str:
    return DIALOGUE + json.dumps({"messages": turns})


# Name of the file, its content, and words that the line has.
TEXTS = [
    ("empty.txt", "", "empty"),
    ("nul.txt", b"ab\ncd\0", "value 0"),
    ("latin.txt", b"ok\nok\ncaf\xe9 x", "byte 9"),
    ("cut.txt", "ok\né".encode()[:-1], "byte 3"),
    ("utf16.txt", "hi".encode("utf-16")[:-1], "UTF-16"),
    ("cut.txt.gz", gzip.compress(b"x" * 9999, mtime=0)[:-9], "end-of-stream"),
    ("empty.txt.gz", gzip.compress(b"", mtime=0), "empty"),
    ("cut.txt.zst", zstandard.compress(b"text")[:-3], "ended before"),
    ("no.txt.zst", b"plain", "cannot be read"),
    ("essay.docx", b"PK\x03\x04\x14\x00", "not .docx"),
    ("null.jsonl", '{"text": "a"}\n{"text": null}\n', "row 2: 'text'"),
    ("missing.jsonl", '{"text": "a"}\n{"texts": "b"}\n', "row 2: 'text'"),
    ("broken.jsonl", '{"text": "a"}\n{"text"\n', "row 2"),
    ("deep.jsonl", "[" * 100_000, "recursion"),
    ("latin.jsonl", b'{"text": "\xff"}\n', "byte 10"),
    ("empty.jsonl", "", "empty"),
    ("blank.jsonl", "\n\n", "no rows"),
    ("object.json", json.dumps({"data": [1]}, indent=1), "'data'"),
    ("array.json", '[{"text": "a"} 1]', "Expecting ','"),
    ("dialogues.jsonl", DIALOGUE, "data.source"),
    ("header.csv", "text,n\n", "no rows"),
    ("open.csv", 'text,n\na,1\n"b,2\nc,3\n', "row 2"),
    ("rich.txt", r"{\rtf1 Ana sat.}", "is Rich Text"),
    ("page.xml", "<?xml version='1.0'?><p>Ana sat.</p>", "is XML"),
    ("page.xml.gz", gzip.compress(b"<p>Ana sat.</p>", mtime=0), "is XML"),
    ("ragged.csv", "text,n\na,1\nb\n", "row 2"),
    ("columns.csv", "a,b,1\nx,y,2\n", "data.field: one of 'a', 'b'"),
    ("cut.parquet", parquet(text=["a", "b"])[:-20], "magic bytes"),
    ("latin.parquet", parquet(text=pyarrow.array([b"\xff"]).view(pyarrow.string())), "0xff"),
    ("cut.arrow", b"ARROW1", ".arrow"),
]
PAIRS = [
    ("no_tab.tsv", "a\tb\nno tab\n", "line 2"),
    ("no_source.tsv", "a\tb\n\tb\n", "line 2"),
]
DIALOGUES = [
    ("text.txt", "a", "rows"),
    ("no.jsonl", DIALOGUE + "nothing\n", "row 2"),
    ("text.jsonl", DIALOGUE + '{"text": "a"}\n', "row 2: has the fields ['text']"),
    ("nothing.jsonl", messages(), "row 2"),
    ("question.jsonl", messages(ASKED), "messages"),
    ("answer.jsonl", messages(ANSWERED), "'assistant'"),
    ("blank.jsonl", messages(ASKED, {**ANSWERED, "content": " \n"}), "message 2"),
    ("no_text.jsonl", messages({**ASKED, "content": None}, ANSWERED), "message 1"),
    ("large.jsonl", messages({**ASKED, "content": "a" * 10**6}, ANSWERED), "1,000,000"),
    ("list.jsonl", '{"messages": "a"}', "messages"),
    ("null.jsonl", '{"instruction": "a", "output": null}', "message 2"),
]
READERS = {"texts": TextFiles, "pairs": PairFiles, "dialogues": Dialogues}
TABLE = [
    *(("texts", *case) for case in TEXTS),
    *(("pairs", *case) for case in PAIRS),
    *(("dialogues", *case) for case in DIALOGUES),
]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("block", [5, 1 << 20])
@pytest.mark.parametrize(("reader", "name", "content", "words"), TABLE)
def test_a_file_is_refused_in_one_line(reader, name, content, words, block, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_BYTES", block)
    path = write(tmp_path / name, content)
    with pytest.raises(UserError) as found:
        list(READERS[reader]([path]).pieces())
    (line,) = found.value.problems
    assert line.startswith(f"{path}: ") and "\n" not in line and words in line


def test_the_problems_of_all_files_are_reported_at_once(tmp_path, monkeypatch):
    paths = [write(tmp_path / name, content) for name, content, _ in TEXTS]
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty_folder").mkdir()
    more = [tmp_path / name for name in ("pipe", "missing.txt", "*.none", "empty_folder")]
    good = write(tmp_path / "good.txt", "good")
    with pytest.raises(UserError) as found:
        list(TextFiles([good, *paths, *more]).pieces())
    expected = sorted(str(path) for path in (*paths, *more))
    assert sorted(line.partition(": ")[0] for line in found.value.problems) == expected
    # Before anything is logged or written.
    with pytest.raises(UserError) as early:
        TextFiles(paths).read()
    assert len(early.value.problems) == len(paths)
    # A column that is not there.
    named = [write(tmp_path / "a.csv", "a,b\nx,y\n"), write(tmp_path / "a.parquet", parquet(a="x"))]
    with pytest.raises(UserError) as found:
        list(TextFiles(named, field="c").pieces())
    assert len(found.value.problems) == 2 and all("'c'" in line for line in found.value.problems)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError) as found:
        list(TextFiles([named[1], write(tmp_path / "b.parquet", b"")]).pieces())
    (line,) = found.value.problems
    assert "pip install" in line and "pyarrow" in line.partition("pip install")[2]


def test_files_of_ids_that_cannot_be_used(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"123")
    np.save(tmp_path / "c.npy", np.array([0.5]))
    np.save(tmp_path / "d.npy", np.array([{}], dtype=object))
    (tmp_path / "e.npy").write_bytes(b"no array")
    np.save(tmp_path / "e0.npy", np.arange(0))
    np.save(tmp_path / "e1.npy", np.arange(50))
    (tmp_path / "e1.npy").write_bytes((tmp_path / "e1.npy").read_bytes()[:-9])
    with open(tmp_path / "e2.npy", "wb") as several:
        np.savez(several, a=np.arange(3), b=np.arange(3))
    np.save(tmp_path / "f.npy", np.eye(2, dtype=int))
    others = [write(tmp_path / "text.md", "a"), tmp_path / "none.npy"]
    problems = IdFiles([str(tmp_path), *map(str, others)]).problems
    names = ["a.bin", *(f"{n}.npy" for n in ("c", "d", "e", "e0", "e1", "e2", "f"))]
    expected = [str(path) for path in [*(tmp_path / name for name in names), *others]]
    assert [line.partition(": ")[0] for line in problems] == expected
    assert not any("\n" in line for line in problems)
