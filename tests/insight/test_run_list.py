"""The list of runs: what it reads, and what it makes of damaged and foreign files."""

import json
import os
import shutil
from pathlib import Path

import pytest

import minigpt
from minigpt.insight.run_list import list_runs
from minigpt.runs.lock import is_locked, run_lock
from tests.run_files import records as lines_of

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "runs"


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with a copy of a finished run."""
    copied(tmp_path, "a")
    return tmp_path


def copied(folder: Path, name: str, fixture: str = "character") -> Path:
    return Path(shutil.copytree(FIXTURES / fixture, folder / name))


def only(folder: Path) -> minigpt.RunSummary:
    (summary,) = list_runs(folder)
    return summary


def write_metrics(run: Path, *lines: object) -> None:
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    (run / "metrics.jsonl").write_text(text)


def test_runs_of_every_kind():
    found = {run.name: run for run in minigpt.list_runs(FIXTURES)}
    folders = {path.parent.name for path in FIXTURES.glob("*/config.toml")}
    assert set(found) == folders and len(folders) > 5
    for name, run in found.items():
        assert run.state == ("interrupted" if name == "interrupted" else "finished")
        opened = minigpt.Run(FIXTURES / name)
        if name == "imported":
            assert (run.text, run.epochs, run.bits_per_byte) == (None, 0, None)
            continue
        assert run.text == Path(opened.config.data.paths[0]).name
        records = [] if name == "interrupted" else lines_of(opened.metrics_file)
        assert run.epochs == len(records)
        if records:
            best = min(records, key=lambda record: record["val_loss"])
            assert (run.val_loss, run.bits_per_byte) == (
                best["val_loss"],
                best["val_bits_per_byte"],
            )
            assert run.seconds == records[-1]["seconds"]
        if name not in ("lora", "interrupted"):
            assert run.parameters == sum(w.size for w in weights_of(opened))


def weights_of(run: minigpt.Run) -> list:
    arrays = run.best_checkpoint().arrays
    return [array for name, array in arrays.items() if name.startswith("weights/")]


def test_a_run_lists_itself(folder, monkeypatch):
    assert only(folder / "a") == only(folder)
    monkeypatch.chdir(folder / "a")
    assert only(Path(".")).name == "a"
    monkeypatch.chdir(folder / "a" / "tokenizer")
    assert only(Path("..")).name == "a"


def test_names_are_in_natural_order(folder):
    (folder / "a").rename(folder / "story-1")
    for name in ("story-10", "story-2", "Story-3", "other", "story-²", "9"):
        copied(folder, name)
    names = [run.name for run in list_runs(folder)]
    assert names == ["9", "other", "story-1", "story-2", "Story-3", "story-10", "story-²"]


def test_what_is_no_run_is_left_out(folder):
    copied(folder, ".b.tmp")
    (folder / "notes").mkdir()
    (folder / "config.txt").write_text("x")
    assert only(folder).name == "a"
    assert list_runs(folder / "notes") == []


@pytest.mark.parametrize("content", [b"", b"[model]\nkind = 3", b"\xff", b"[data", b"\0" * 100])
def test_a_damaged_run_is_listed(folder, content):
    copied(folder, "b")
    (folder / "a" / "config.toml").write_bytes(content)
    first, second = list_runs(folder)
    if content:  # An empty configuration is that of the default run.
        assert first == minigpt.RunSummary(folder / "a", "a")
        assert first.state == "damaged"
    assert second.state == "finished"


@pytest.mark.parametrize("name", ["metrics.jsonl", "facts.json", "analysis.json", "corpus.json"])
def test_damaged_records(folder, name):
    parameters = None if name == "facts.json" else only(folder).parameters
    for content in (b"", b"\xff\xfe", b"[]", b"[1]\n3\nnull\n", b"{" * 5000, b'{"epoch": {}}'):
        (folder / "a" / name).write_bytes(content)
        run = only(folder)
        assert (run.name, run.state, run.parameters) == ("a", "finished", parameters)
        assert run.epochs == (0 if name == "metrics.jsonl" else 2)


def test_records_of_wrong_types(folder):
    number = {"epoch": 2, "val_loss": 2.5, "val_bits_per_byte": "low", "seconds": 10**400}
    write_metrics(
        folder / "a",
        {"epoch": 1, "val_loss": float("nan"), "val_bits_per_byte": 1.0, "seconds": 1},
        "{not json\n",
        number,
        '{"epoch": 3, "val_loss": 1.0',
    )
    run = only(folder)
    assert (run.epochs, run.val_loss, run.bits_per_byte, run.seconds) == (2, 2.5, None, None)


def test_the_best_epoch_is_listed(folder):
    losses = [3.0, 2.0, 2.5]
    write_metrics(
        folder / "a",
        *(
            {"epoch": i + 1, "val_loss": x, "val_bits_per_byte": x / 2, "seconds": 10.0 * (i + 1)}
            for i, x in enumerate(losses)
        ),
    )
    run = only(folder)
    assert (run.val_loss, run.bits_per_byte, run.seconds, run.epochs) == (2.0, 1.0, 30.0, 3)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ("finished", "finished"),
        ("failed", "failed"),
        ("interrupted", "interrupted"),
        # Killed: no process holds the lock.
        ("training", "interrupted"),
        ("unheard of", "finished"),
        (["finished"], "finished"),
    ],
)
def test_recorded_states(folder, recorded, expected):
    (folder / "a" / "analysis.json").write_text(json.dumps({"state": recorded}))
    assert only(folder).state == expected


def test_a_run_that_is_being_trained(folder):
    run = folder / "a"
    (run / "analysis.json").write_text('{"state": "finished"}')
    with run_lock(run):
        assert is_locked(run)
        assert only(folder).state == "training"
    assert not is_locked(run)
    assert only(folder).state == "finished"


def test_a_lock_that_is_a_link_or_a_pipe(folder):
    lock = folder / "a" / "lock"
    lock.unlink(missing_ok=True)
    os.mkfifo(lock)
    assert only(folder).state == "finished"
    lock.unlink()
    lock.symlink_to("/dev/zero")
    assert only(folder).state == "finished"
