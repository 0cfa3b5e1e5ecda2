"""The last lines of training: what to do next is said once."""

from pathlib import Path
from types import SimpleNamespace

import pytest

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
