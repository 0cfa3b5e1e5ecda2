"""`minigpt sweep`: a run for each combination of values, and their comparison."""

import contextlib
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

import minigpt
from minigpt.config import dump_config
from minigpt.config.loading import load_new_config
from minigpt.errors import UserError
from minigpt.insight import sweep
from minigpt.interrupts import INTERRUPTED
from tests.cli.running import called, refused
from tests.conftest import tiny_text
from tests.test_documentation import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "book.txt").write_text(tiny_text(), encoding="utf-8")
    return tmp_path


class Trainer:
    """Stands in for the processes that train: copies a finished run, with a loss of its settings.

    Attributes:
      calls: the arguments of the processes.
      statuses: of the next processes; 0 after them. INTERRUPTED leaves an interrupted run, 1 none.
    """

    def __init__(self, run: minigpt.Run, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.calls: list[list[str]] = []
        self.statuses: list[int] = []

    def __call__(self, arguments: list[str], workers: int) -> list[int]:
        assert workers == 1 and arguments[0] == "train"
        self.calls.append(arguments)
        options = [arguments[i : i + 2] for i in range(1, len(arguments), 2)]
        path = self.folder / next(v for name, v in options if name in ("--run", "--resume"))
        status = self.statuses.pop(0) if self.statuses else 0
        if ["--run", str(path.relative_to(self.folder))] in options and status != 1:
            shutil.copytree(self.run.path, path)
            given = {
                key: [value for name, value in options if name == key]
                for key in ("--set", "--text")
            }
            config = load_new_config(None, given["--set"], given["--text"])
            (path / "config.toml").write_text(dump_config(config), encoding="utf-8")
            training = config.training
            loss = 1 + abs(training.learning_rate - 0.01) + (training.optimizer == "sgd")
            (path / "metrics.jsonl").write_text(json.dumps({"epoch": 1, "val_loss": loss}))
        state = "interrupted" if status == INTERRUPTED else "finished"
        if path.exists():
            (path / "analysis.json").write_text(json.dumps({"state": state}))
        return [status]


@pytest.fixture
def trainer(tiny_run, folder, monkeypatch) -> Trainer:
    trainer = Trainer(tiny_run, folder)
    monkeypatch.setattr(sweep, "launch", trainer)
    return trainer


def sets(*settings) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def swept(folder, *settings):
    return called("sweep", "--text", "book.txt", *sets(*settings), "--output", "s", cwd=folder)


def table(output: str) -> list[str]:
    """The names of the runs in the table at the end."""
    return re.findall(r"^(\S+)  .* finished$", output.split("\nname ")[1], re.M)


def test_a_sweep(folder, trainer):
    grid = "training.learning_rate=1e-4,3e-2", "training.optimizer=adamw,sgd"
    done = swept(folder, *grid)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    found = {run.name: run for run in minigpt.list_runs(folder / "s")}
    names = [f"learning_rate={r},optimizer={o}" for r in ("1e-4", "3e-2") for o in ("adamw", "sgd")]
    assert sorted(found) == sorted(
        n.replace("1e-4", "0.0001").replace("3e-2", "0.03") for n in names
    )
    for run in found.values():
        training = minigpt.Run(run.path).config.training
        assert f"learning_rate={training.learning_rate},optimizer={training.optimizer}" == run.name
    # The best one first.
    assert table(done.stdout) == sorted(found, key=lambda name: found[name].val_loss)
    page = (folder / "s/report.html").read_text(encoding="utf-8")
    assert "Comparison of 4 runs" in page and all(json.dumps(name) in page for name in found)

    # The same command trains nothing; with another value, only its runs are trained.
    trainer.calls.clear()
    assert table(swept(folder, *grid).stdout) == table(done.stdout) and trainer.calls == []
    more = swept(folder, "training.learning_rate=1e-4,3e-2,1e-3", grid[1])
    assert len(trainer.calls) == 2 and len(table(more.stdout)) == 6
    # The same in Python: nothing is trained, and the runs are in the order of the table.
    values = {"training.learning_rate": [1e-4, 3e-2], "training.optimizer": ["adamw", "sgd"]}
    with contextlib.chdir(folder):
        runs = minigpt.sweep(values, output="s", text=["book.txt"])
    assert [run.name for run in runs] == table(done.stdout) and len(trainer.calls) == 2
    # Other settings would be mixed with those of the runs.
    (folder / "other.txt").write_text("Ana sat.")
    lines = refused("sweep", "--text", "other.txt", *sets(*grid), "--output=s", cwd=folder)
    assert len(lines) == 4 and all("data.paths" in line for line in lines)
    # A run is no folder of runs.
    page = next(iter(found.values())).path / "report.html"
    page.write_text("of the run")
    path = page.parent.relative_to(folder)
    (line,) = refused("sweep", *sets(*grid), "--output", path, cwd=folder)
    assert line.startswith(f"minigpt: --output {path}: ") and page.read_text() == "of the run"


@pytest.mark.parametrize(
    ("values", "more", "error", "name"),
    [
        ({}, {}, UserError, "values"),
        ({"training.seed": []}, {}, UserError, "values"),
        ({"training.seed": [3]}, {"text": "book.txt"}, TypeError, "text"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(values, more, error, name, folder, trainer):
    with contextlib.chdir(folder), pytest.raises(error) as caught:
        minigpt.sweep(values, output="s", **more)
    assert str(caught.value).startswith((name, f"`{name}`")) and not (folder / "s").exists()


def test_a_folder_that_cannot_be_written_is_said_before_the_first_run(folder, trainer):
    for path in ("book.txt", "book.txt/a"):
        (line,) = refused("sweep", *sets("training.seed=1,2"), "--output", path, cwd=folder)
        assert line.startswith(f"minigpt: --output {path}: ")
    assert trainer.calls == []


def test_an_interrupted_sweep_continues(folder, trainer):
    grid = ("training.seed=1,2,3",)
    trainer.statuses = [0, INTERRUPTED]
    with pytest.raises(KeyboardInterrupt):
        swept(folder, *grid)
    states = {run.name: run.state for run in minigpt.list_runs(folder / "s")}
    assert states == {"seed=1": "finished", "seed=2": "interrupted"}
    trainer.calls.clear()
    done = swept(folder, *grid)
    assert [arguments[:2] for arguments in trainer.calls] == [
        ["train", "--resume"],
        ["train", "--run"],
    ]
    assert sorted(table(done.stdout)) == ["seed=1", "seed=2", "seed=3"]


def test_a_run_that_fails_costs_a_line(folder, trainer):
    trainer.statuses = [1]
    done = swept(folder, "training.learning_rate=1e30,1e-2")
    assert done.returncode == 1 and len(trainer.calls) == 2
    assert sum("s/learning_rate=1e+30: " in line for line in done.stdout.splitlines()) == 1
    assert table(done.stdout) == ["learning_rate=0.01"]
    # The one that failed is the last row.
    assert re.fullmatch(r"learning_rate=1e\+30 .* failed", done.stdout.splitlines()[-1])


def test_a_process_for_each_run(folder):
    """The process prints why it fails: there is no text."""
    (folder / "book.txt").write_text(" ")
    done = swept(folder, "training.learning_rate=0.001")
    assert done.returncode == 1
    row = done.stdout.splitlines()[-1].split()
    # Its name has a single value too: others can be added.
    assert (row[0], row[-1]) == ("learning_rate=0.001", "failed")
    assert not (folder / "s").exists()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["training.learning_rat=1,2"], "training.learning_rat = 1"),
        (["training.epochs=1,-2"], "training.epochs = -2"),
        (["training.epochs"], "training.epochs = ''"),
        (["training.epochs=1", "training.epochs=2"], "training.epochs=2"),
        (["training.epochs=1,2,1"], "s/epochs=1"),
        (['data.paths=["book.txt"],["none.txt"]', "training.seed=1,2"], "none.txt"),
        (["data.source=pairs", 'data.paths=["none.tsv"]'], "none.tsv"),
        (["nothing.epochs=1"], "nothing.epochs=1"),
    ],
)
def test_what_cannot_be_trained_is_said_before_the_first_run(folder, settings, expected):
    lines = refused("sweep", "--text", "book.txt", *sets(*settings), "--output", "s", cwd=folder)
    assert expected in lines[0] and not (folder / "s").exists()


def test_the_command_of_the_guide(folder, trainer):
    guide = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    minigpt (sweep .*)$", guide, re.M)
    done = called(*shlex.split(command), "--text", "book.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "learning_rate=0.001,num_layers=2" in table(done.stdout) and len(trainer.calls) == 4
    assert (folder / "runs/sweep/report.html").is_file()
