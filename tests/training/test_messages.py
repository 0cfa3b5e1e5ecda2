"""What training prints before it and after it; what to do next is said once."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from minigpt.config import load_config
from minigpt.training import messages


@pytest.mark.parametrize(
    ("source", "advice", "since_best", "expected"),
    [
        ("files", "Add text.", 0, ["Add text."]),
        ("files", "Add text.", 2, ["Add text."]),
        # The doctor's verdicts have no advice.
        ("files", "", 0, []),
        # There are no verdicts, or no hook has examined the run.
        ("files", None, 0, ["Train it for longer: extend"]),
        ("files", None, 2, []),
        ("stories", None, 0, ["Train a model of your own text: minigpt train --text book.txt"]),
    ],
)
def test_what_to_do_next(source, advice, since_best, expected, monkeypatch):
    monkeypatch.setattr(messages, "_use", lambda *_: "use")
    monkeypatch.setattr(messages, "_extending", lambda *_: "extend")
    loop = SimpleNamespace(
        run=SimpleNamespace(path=Path("runs/a"), portable_file=Path("missing")),
        hooks=SimpleNamespace(advice=advice),
        checkpointing=SimpleNamespace(epochs_since_best=since_best),
        task=SimpleNamespace(config=SimpleNamespace(data=SimpleNamespace(source=source))),
    )
    assert messages.next_commands(loop, "minigpt").splitlines() == ["use", *expected]


@pytest.mark.parametrize(
    ("kind", "after"),
    [("byte_pair", " (after import tensorflow_text)"), ("character", ""), ("word", "")],
)
def test_what_each_file_needs(kind, after, tiny_run, monkeypatch):
    monkeypatch.setattr(messages, "is_newer", lambda *_: True)
    tokenizer = SimpleNamespace(kind=kind)
    loop = SimpleNamespace(
        run=tiny_run,
        clock=SimpleNamespace(seconds=1.0, process_seconds=1.0),
        task=SimpleNamespace(corpus=SimpleNamespace(tokenizer=tokenizer)),
    )
    said = messages.finished(loop, {}, 2.0)
    assert "model.keras for Keras (after import minigpt)" in said
    assert f"saved_model/ for TensorFlow{after}. " in said


@pytest.mark.parametrize(
    ("seconds", "minutes", "expected"),
    [
        (14, "none", "less than a minute"),
        (56, "none", "56 s to 2 min 48 s"),
        (56, 3, "56 s to 2 min 48 s, at most 3 min"),
        # What the limit says is not said twice.
        (61, 3, "at most 3 min"),
        (200, 3, "at most 3 min"),
        (5, 1, "at most 1 min"),
    ],
)
def test_the_expected_time(seconds, minutes, expected):
    overrides = [f"training.max_minutes={minutes}", "training.steps_per_epoch=10"]
    task = SimpleNamespace(config=load_config("default", overrides), sequence_length=64)
    assert messages._training(task, seconds).split("; ")[1] == expected


@pytest.mark.parametrize(
    ("epoch", "minutes", "changes", "expected"),
    [
        (3, "none", [], ["training.epochs=4"]),
        # Three epochs took 45 seconds: there is time for a fourth one, and there is not.
        (3, 1.1, [], ["training.epochs=4"]),
        (3, 0.9, [], ["training.epochs=4", "training.max_minutes=1.8"]),
        # The time limit has ended it, on a slower machine.
        (2, 10, [[1, 20]], ["training.max_minutes=20"]),
    ],
)
def test_how_to_extend_a_run(epoch, minutes, changes, expected):
    settings = ["training.epochs=3", f"training.max_minutes={minutes}"]
    loop = SimpleNamespace(
        run=SimpleNamespace(path=Path("runs/a")),
        training=load_config("default", settings).training,
        checkpointing=SimpleNamespace(epoch=epoch, epochs_since_best=0),
        clock=SimpleNamespace(seconds=45.0, limits=SimpleNamespace(changes=changes)),
    )
    command = "minigpt train --resume runs/a" + "".join(f" --set {each}" for each in expected)
    assert messages._extending(loop, "minigpt") == command
