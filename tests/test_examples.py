"""The examples run from top to bottom."""

import csv
import html
import os
import re
import subprocess
import sys
from pathlib import Path

import chess
import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from tests.conftest import tiny_text

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


# A cell's text, and what makes it shorter here.
SHORTER = {
    "first_model": ('"steps_per_epoch": 40', '"steps_per_epoch": 4, "jit_compile": False'),
    "your_own_text": (
        '"max_minutes": minutes',
        '"epochs": 1, "steps_per_epoch": 4, "batch_size": 4, "jit_compile": False',
    ),
}


@pytest.mark.parametrize("name", SHORTER)
def test_notebook(tmp_path, monkeypatch, name):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = {cell.id: cell for cell in notebook.cells if cell.cell_type == "code"}
    long, short = SHORTER[name]
    assert long in cells["train"].source
    cells["train"].source = cells["train"].source.replace(long, short)
    # A cell that raises ends the test.
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
    # minigpt is installed.
    assert not cells["install"].outputs
    outputs = cells["train"].outputs
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "validation loss" in printed and "\n\n  \x1b[36m[" in printed  # Scores, and a sample.
    assert "INFO:tensorflow" not in printed
    assert not any(output.get("name") == "stderr" for output in outputs)
    # The progress is one line, which is empty in the end.
    progress = [output for output in outputs if output.output_type == "display_data"]
    assert [output.data for output in progress] == [{"text/plain": ""}]
    assert "tokens/s  " not in printed
    for cell in cells["report"], cells["page"]:
        document = cell.outputs[-1].data["text/html"]
        inlined = re.search('<iframe srcdoc="(.*?)" sandbox="allow-scripts', document, re.S)[1]
        assert html.unescape(inlined).endswith("</html>\n")
    texts = "".join(output.get("text", "") for output in cells["sample"].outputs)
    assert {"first_model": "Once upon a time", "your_own_text": "The"}[name] in texts


def test_scripts(tmp_path):
    (tmp_path / "book.txt").write_text(tiny_text(), encoding="utf-8")

    def run(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout

    settings = ("training.epochs=2", "training.steps_per_epoch=10", "model.embed_dim=16")
    run(str(EXAMPLES / "train_in_python.py"), "book.txt", "run", *settings)
    with (tmp_path / "metrics.csv").open() as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["0", "1"]
    # -I: without minigpt's folder on the path.
    answer = run("-I", str(EXAMPLES / "use_export.py"), "run/saved_model", "Ana sat")
    assert answer.startswith("Ana sat")


def test_chess_games(tmp_path):
    settings = ["training.epochs=1", "training.steps_per_epoch=3", "model.embed_dim=16"]
    options = [part for setting in settings for part in ("--set", setting)]
    command = ["folder", "--games", "40", "--length", "30", "--samples", "3", *options]
    output = subprocess.run(
        [sys.executable, str(EXAMPLES / "chess_games.py"), *command],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    legal, tried = map(int, re.search(r"(\d+) of (\d+) moves are legal: ", output).groups())
    # A model that has learned nothing: each of three games ends at once, or soon.
    assert 0 <= legal <= tried <= 60
    names = (tmp_path / "folder" / "moves.txt").read_text().split()
    ids = np.load(tmp_path / "folder" / "games.npy")
    games = " ".join(names[i] for i in ids).split(" <end>")[:-1]
    assert len(games) == 40
    for game in games:
        board = chess.Board()
        for move in game.split():
            board.push_uci(move)  # Raises an error for an illegal move.


def test_keras_tutorial(tmp_path):
    (tmp_path / "texts").mkdir()
    for i in range(2):
        text = tiny_text(150, seed=i).replace(" and", "<br />and")
        (tmp_path / "texts" / f"{i}.txt").write_text(text, encoding="utf-8")
    command = [str(EXAMPLES / "keras_tutorial.py"), "texts", "--epochs=2", "--prompt=ana sat"]
    output = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    samples = re.findall("generated text:\n(.*)\n", output)
    assert len(samples) == 3
    for sample in samples:
        words = sample.split(" ")
        assert words[:2] == ["ana", "sat"] and len(words) == 42
        assert set(words) <= set(re.findall(r"\w+|\.", tiny_text(300).lower()))
    # The last one is from the model that was saved and opened again.
    assert samples[0] != samples[1] == samples[2]
    losses = [float(loss) for loss in re.findall(r"loss: ([\d.]+)", output)]
    assert losses[1] < losses[0]
