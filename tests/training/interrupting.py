"""Runs that are interrupted, for the tests of resuming."""

from pathlib import Path

import pytest

from tests.conftest import tiny_settings


class Killed(BaseException):
    """Stands for the end of a process: nobody catches it."""


def settings(file: Path, **sections) -> dict:
    """Settings of a tiny deterministic training with dropout and three checkpoints an epoch."""
    training = {
        "steps_per_epoch": 20,
        "checkpoint_every_steps": 6,
        "deterministic": True,
        **sections.pop("training", {}),
    }
    model = {"dropout_rate": 0.1, "attention_dropout_rate": 0.1, "num_layers": 1}
    return tiny_settings(file, training=training, model=model, **sections)


def killed(function, owner, name: str, call: int) -> None:
    """Calls a function that dies when `owner.name` is called for so many times."""
    original, calls = getattr(owner, name), 0

    def counting(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return original(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(owner, name, counting)
        function()
