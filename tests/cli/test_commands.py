"""The other commands."""

import json
import subprocess
import sys

import pytest

from tests.cli.running import called, refused
from tests.conftest import tiny_text


def test_tokenize(trained):
    folder, _ = trained
    text = "Ana sat ☃."
    done = called("tokenize", "runs/book-1", "--text", text, cwd=folder)
    pieces, ids, counts = done.stdout.splitlines()
    assert pieces == "A|n|a| |s|a|t| |<E2>|<98>|<83>|."
    assert counts == "12 tokens, 12 bytes, 1.00 bytes per token"
    arguments = [sys.executable, "-m", "minigpt", "tokenize", "runs/book-1", "--json"]
    done = subprocess.run(arguments, input=f"{text}\n\n".encode(), capture_output=True, cwd=folder)
    first, empty = (json.loads(line) for line in done.stdout.splitlines())
    tokens = list(map(int, ids.split()))
    assert first == {"text": text, "tokens": tokens, "pieces": pieces.split("|"), "bytes": 12}
    assert empty == {"text": "", "tokens": [], "pieces": [], "bytes": 0}


def test_evaluate(trained):
    folder, _ = trained
    held_out = json.loads(called("evaluate", "runs/book-1", "--json", cwd=folder).stdout)
    assert set(held_out) == {"loss", "perplexity", "bits_per_byte", "tokens", "bytes"}
    metrics = [json.loads(line) for line in (folder / "runs/book-1/metrics.jsonl").open()]
    assert held_out["loss"] == pytest.approx(min(m["val_loss"] for m in metrics), rel=1e-4)
    other = called("evaluate", "runs/book-1", "--text", "book.txt", cwd=folder).stdout
    assert f"{len(tiny_text().encode()):,} bytes" in other


def test_evaluate_several_files(trained, tmp_path):
    """Each row has the scores of the file alone."""
    folder, _ = trained
    texts = [
        "Ana sat on the hill and ate 4 figs.",
        "Ben ran.",
        "Nobody else had brought xylophones.",
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (tmp_path / "b.csv").write_text("n,story\n" + "".join(f"1,{text}\n" for text in texts[:2]))
    files = [tmp_path / "a.jsonl", tmp_path / "b.csv", folder / "book.txt"]
    command = ("evaluate", "runs/book-1", *files)
    heading, *rows = called(*command, cwd=folder).stdout.splitlines()
    assert heading.split() == ["file", "bits/byte", "loss", "tokens", "bytes"]
    records = json.loads(called(*command, "--json", cwd=folder).stdout)
    for row, record, file in zip(rows, records, files, strict=True):
        alone = called("evaluate", "runs/book-1", "--text", file, "--json", cwd=folder)
        assert record == {"file": str(file)} | json.loads(alone.stdout)
        scores = [f"{record['bits_per_byte']:.4f}", f"{record['loss']:.4f}"]
        sizes = [f"{record['tokens']:,}", f"{record['bytes']:,}"]
        assert row.split() == [str(file), *scores, *sizes]
    assert records[0]["bytes"] == sum(map(len, texts))
    (line,) = refused("evaluate", "runs/book-1", "book.txt", "--text", "book.txt", cwd=folder)
    assert "--text: scores all paths as one text; cannot be combined with FILE" in line
    (tmp_path / "b.csv").write_text("story\n")
    (tmp_path / "val.bin").write_bytes(b"\0\1\0\1")
    files = ["no.txt", "no.npy", tmp_path / "val.bin", *files]
    *_, missing, none, ids, empty = refused("evaluate", "runs/book-1", *files, cwd=folder)
    assert "no.txt: no such file or folder" in missing and "b.csv: has no rows" in empty
    assert "no.npy: no such file or folder" in none
    assert "val.bin: token ids can be scored only by a run that was trained on token ids" in ids


def test_export(trained):
    folder, _ = trained
    done = called("export", "runs/book-1", "--format", "saved_model", "--output", "a/b", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "a/b/saved_model.pb").is_file()
    (line,) = refused("export", "runs/book-1", "--output", "a/b", cwd=folder)
    assert "a/b" in line and "is not empty" in line


def test_configs_lists_the_shipped_ones():
    lines = called("configs").stdout.splitlines()
    names = [line.split()[0] for line in lines]
    records = [json.loads(line) for line in called("configs", "--json").stdout.splitlines()]
    assert [f"{record['name']:<24}{record['description']}" for record in records] == lines
    assert names[0] == "default"
    assert {"shakespeare_character", "imdb_keras_example", "imdb", "python"} < set(names)
