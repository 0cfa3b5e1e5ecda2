"""The other commands."""

import json
import subprocess
import sys

import pytest

from tests.cli.running import called
from tests.conftest import tiny_text


def test_tokenize(folder):
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


def test_evaluate(folder):
    held_out = json.loads(called("evaluate", "runs/book-1", "--json", cwd=folder).stdout)
    assert set(held_out) == {"loss", "perplexity", "bits_per_byte", "tokens", "bytes"}
    metrics = [json.loads(line) for line in (folder / "runs/book-1/metrics.jsonl").open()]
    assert held_out["loss"] == pytest.approx(min(m["val_loss"] for m in metrics), rel=1e-4)
    other = called("evaluate", "runs/book-1", "--text", "book.txt", cwd=folder).stdout
    assert f"{len(tiny_text().encode()):,} bytes" in other


def test_evaluate_rows(folder, tmp_path):
    texts = ["Ana sat on the hill and ate 4 figs.", "Ben ran."]
    (tmp_path / "b.csv").write_text("n,story\n" + "".join(f"1,{text}\n" for text in texts))
    arguments = ("evaluate", "runs/book-1", "--text", tmp_path / "b.csv", "--json")
    assert json.loads(called(*arguments, cwd=folder).stdout)["bytes"] == sum(map(len, texts))


def test_configs_lists_the_shipped_ones():
    lines = called("configs").stdout.splitlines()
    names = [line.split()[0] for line in lines]
    records = [json.loads(line) for line in called("configs", "--json").stdout.splitlines()]
    assert [f"{record['name']:<24}{record['description']}" for record in records] == lines
    assert names[0] == "default"
    assert {"shakespeare_character", "imdb_keras_example", "imdb", "python"} < set(names)
