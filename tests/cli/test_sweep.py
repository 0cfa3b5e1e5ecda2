"""`minigpt sweep`: a run for each combination of values, and their comparison."""

import contextlib
import json
import re
import shlex
from pathlib import Path

import pytest
import tomli_w

import minigpt
from minigpt.cli.sweep import _values
from minigpt.config.loading import FORMAT, apply_overrides
from minigpt.errors import UserError
from minigpt.insight import sweep
from minigpt.insight.sweep import _trials
from minigpt.interrupts import INTERRUPTED
from minigpt.training.callbacks.clock import LearningRate
from tests.cli.running import SMALL, called, refused
from tests.conftest import tiny_text
from tests.test_documentation import ROOT

# The settings of each run, in a file: the names of the runs have those that are given by `--set`.
FIXED = ["--config", "small.toml"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "book.txt").write_text(tiny_text(), encoding="utf-8")
    sections: dict[str, dict] = {}
    settings = [part.removeprefix("--set=") for part in SMALL]
    apply_overrides(sections, [*settings, "training.epochs=1"], [])
    content = tomli_w.dumps({"format": FORMAT, **sections})
    (tmp_path / "small.toml").write_text(content, encoding="utf-8")
    return tmp_path


@pytest.fixture
def launched(folder, monkeypatch, no_export) -> list[list[str]]:
    """The runs are trained in this process. Returns the arguments of those that were."""
    calls: list[list[str]] = []

    def launch(arguments: list[str], workers: int) -> list[int]:
        assert workers == 1
        calls.append(arguments)
        done = called(*arguments, cwd=folder)
        print(done.stdout)
        return [done.returncode]

    monkeypatch.setattr(sweep, "launch", launch)
    return calls


def sets(*settings) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def swept(folder, *settings):
    given = "--text", "book.txt", *FIXED, *sets(*settings)
    return called("sweep", *given, "--output", "s", cwd=folder)


def table(output: str) -> list[str]:
    """The names of the runs in the table at the end."""
    return re.findall(r"^(\S+)  .* finished$", output.split("\nname ")[1], re.M)


def test_a_sweep(folder, launched):
    grid = "training.learning_rate=1e-4,3e-2", "training.optimizer=adamw,sgd"
    done = swept(folder, *grid)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    found = {run.name: run for run in minigpt.list_runs(folder / "s")}
    names = [f"learning_rate={r},optimizer={o}" for r in (0.0001, 0.03) for o in ("adamw", "sgd")]
    assert sorted(found) == sorted(names) and len(launched) == 4
    for run in found.values():
        training = minigpt.Run(run.path).config.training
        assert f"learning_rate={training.learning_rate},optimizer={training.optimizer}" == run.name
        assert run.state == "finished" and run.epochs == 1
    # The best one first.
    assert table(done.stdout) == sorted(names, key=lambda name: found[name].val_loss)
    assert table(done.stdout)[0] == "learning_rate=0.03,optimizer=adamw"
    page = (folder / "s/report.html").read_text(encoding="utf-8")
    assert "Comparison of 4 runs" in page and all(json.dumps(name) in page for name in names)

    # The same command trains nothing; with another value, only its runs are trained.
    launched.clear()
    assert table(swept(folder, *grid).stdout) == table(done.stdout) and launched == []
    more = swept(folder, "training.learning_rate=1e-4,3e-2,1e-3", grid[1])
    assert len(launched) == 2 and len(table(more.stdout)) == 6
    # The same in Python: nothing is trained, and the runs are in the order of the table.
    values = {"training.learning_rate": [1e-4, 3e-2], "training.optimizer": ["adamw", "sgd"]}
    with contextlib.chdir(folder):
        runs = minigpt.sweep(values, "small.toml", output="s", text=["book.txt"])
    assert [run.name for run in runs] == table(done.stdout) and len(launched) == 2
    # Other settings would be mixed with those of the runs.
    line = "was started with training.batch_size = 8, not 4"
    config = folder / "small.toml"
    config.write_text(config.read_text().replace("batch_size = 8", "batch_size = 4"))
    lines = refused("sweep", "--text", "book.txt", *FIXED, *sets(*grid), "--output=s", cwd=folder)
    assert len(lines) == 4 and all(each.endswith(line) for each in lines)
    # A run is no folder of runs.
    page = next(iter(found.values())).path / "report.html"
    page.write_text("of the run")
    path = page.parent.relative_to(folder)
    lines = refused("sweep", *sets(*grid), "--output", path, cwd=folder)
    expected = f"--output {path}: already contains a run; expected a new or empty directory"
    assert lines == [f"minigpt: {expected}"] and page.read_text() == "of the run"


@pytest.mark.parametrize(
    ("values", "more", "error", "message"),
    [
        ({"training.seed": 3}, {}, TypeError, "`values['training.seed']` must be a list of values"),
        ([("training.seed", [3])], {}, TypeError, "`values` must be a mapping from settings to"),
        ({5: [3]}, {}, TypeError, "`values` must be a mapping from settings to"),
        ({}, {}, UserError, "values = {}: should name at least one setting"),
        (
            {"training.seed": []},
            {},
            UserError,
            "training.seed = []: should have at least one value",
        ),
        (
            {"training.seed": [3]},
            {"text": "book.txt"},
            TypeError,
            "`text` must be a list of paths, such as ['book.txt']. Received: 'book.txt'",
        ),
    ],
)
def test_arguments_that_cannot_be_used_are_one_line(values, more, error, message, folder, launched):
    with contextlib.chdir(folder), pytest.raises(error) as caught:
        minigpt.sweep(values, output="s", **more)
    assert str(caught.value).startswith(message) and not (folder / "s").exists()


def test_a_folder_that_cannot_be_written_is_said_before_the_first_run(folder, launched):
    for path, problem in {
        "book.txt": "is a file; expected a new or empty directory",
        "book.txt/a": f"{folder}/book.txt is a file; expected a directory that can be written to",
    }.items():
        lines = refused("sweep", *sets("training.seed=1,2"), "--output", path, cwd=folder)
        assert lines == [f"minigpt: --output {path}: {problem}"]


def test_an_interrupted_sweep_continues(folder, launched, monkeypatch):
    config = folder / "small.toml"
    text = config.read_text()
    config.write_text(text.replace("[training]", "[training]\ncheckpoint_every_steps = 2"))
    grid = ("training.seed=1,2,3",)
    original, steps = LearningRate.on_train_batch_begin, []

    def interrupted(self, batch, logs=None):
        steps.append(batch)
        if len(steps) == 17:  # In the second run.
            raise KeyboardInterrupt
        original(self, batch, logs)

    with monkeypatch.context() as patch:
        patch.setattr(LearningRate, "on_train_batch_begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            swept(folder, *grid)
    states = {run.name: run.state for run in minigpt.list_runs(folder / "s")}
    assert states == {"seed=1": "finished", "seed=2": "interrupted"}
    launched.clear()
    done = swept(folder, *grid)
    assert [arguments[:2] for arguments in launched] == [["train", "--resume"], ["train", "--run"]]
    assert "Resuming    at step 6 of 10" in done.stdout
    assert sorted(table(done.stdout)) == ["seed=1", "seed=2", "seed=3"]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(sweep, "launch", lambda *_: [INTERRUPTED])
        swept(folder, "training.seed=4,5")


def test_a_run_that_fails_costs_a_line(folder, launched):
    done = swept(folder, "training.learning_rate=1e30,1e-2", "training.clip_norm=none")
    assert done.returncode == 1
    assert "\ns/learning_rate=1e+30,clip_norm=none: failed; the sweep goes on\n" in done.stdout
    assert table(done.stdout) == ["learning_rate=0.01,clip_norm=none"] and len(launched) == 2
    # The one that failed is the last row.
    row = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"learning_rate=1e\+30,clip_norm=none .* failed", row)


def test_a_process_for_each_run(folder):
    """The process prints why it fails: the text is too short for a batch."""
    (folder / "book.txt").write_text("Ana sat.")
    done = swept(folder, "training.learning_rate=0.001")
    assert done.returncode == 1
    first, second, _, row = done.stdout.splitlines()
    name = "learning_rate=0.001"  # Of a single value too: others can be added.
    assert (first, second) == (f"Run 1 of 1: s/{name}", f"s/{name}: failed; the sweep goes on")
    assert row.split() == [name, "–", "–", "–", "–", "failed"]
    assert not (folder / "s").exists()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["training.learning_rat=1,2"], ["--set training.learning_rat = 1: unknown setting"]),
        (["training.epochs=1,-2"], ["--set training.epochs = -2: should be greater than"]),
        (["training.epochs"], ["--set training.epochs = '': should be a valid integer"]),
        (
            ["training.epochs=1", "training.epochs=2"],
            ["--set training.epochs=2: training.epochs is"],
        ),
        (["training.epochs=1,2,1"], ["s/epochs=1: two runs; a value is given twice"]),
        (
            ["training.min_learning_rate=0.1", "training.learning_rate=0.2,0.01"],
            ["--set training.min_learning_rate = 0.1: should not exceed"],
        ),
        (
            ['data.paths=["book.txt"],["none.txt"]', "training.seed=1,2"],
            ["none.txt: no such file or folder"],
        ),
        (["data.source=pairs", 'data.paths=["none.tsv"]'], ["none.tsv: no such file or folder"]),
        (["nothing.epochs=1"], ["--set nothing.epochs=1: unknown section 'nothing'"]),
    ],
)
def test_what_cannot_be_trained_is_said_before_the_first_run(folder, settings, expected):
    lines = refused("sweep", "--text", "book.txt", *sets(*settings), "--output", "s", cwd=folder)
    assert lines and not (folder / "s").exists()
    for line, start in zip(lines, expected, strict=False):
        assert line.startswith(f"minigpt: {start}"), lines


def settings_of(*overrides):
    """The settings and the names of the runs of a command."""
    parts = (override.partition("=") for override in overrides)
    found = _trials({name: _values(listed) for name, _, listed in parts}, None, Path("s"), [])
    return list(found.values()), [path.name for path in found]


def test_values_with_commas():
    found, _ = settings_of('sampling.stop=["."],["!", "?"],[]', "data.license=none")
    assert [settings[0] for settings in found] == [
        'sampling.stop=["."]',
        'sampling.stop=["!", "?"]',
        "sampling.stop=[]",
    ]
    found, _ = settings_of('data.license="by, sa","MIT"', "training.seed=1,2")
    assert len(found) == 4 and ['data.license="by, sa"', "training.seed=1"] in found
    _, names = settings_of("training.clip_norm=none,1.0", "training.schedule=wsd,cosine")
    assert names == [
        f"clip_norm={c},schedule={s}" for c in ("none", "1.0") for s in ("wsd", "cosine")
    ]


def test_the_command_of_the_guide(folder, launched):
    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    minigpt (sweep .*)$", guide, re.M)
    done = called(*shlex.split(command), *FIXED, "--text", "book.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "learning_rate=0.001,num_layers=2" in table(done.stdout) and len(launched) == 4
    assert (folder / "runs/sweep/report.html").is_file()
