"""Configurations of training in several processes."""

from pathlib import Path

import pytest

from minigpt.config import dump_config, load_config
from tests.conftest import tiny_settings

TRAINING = {"jit_compile": False, "checkpoint_every_steps": 10, "keep_snapshots": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_file) -> Path:
    """Holds a configuration whose training has 2 epochs of 12 steps, and one that is much longer."""
    folder = tmp_path_factory.mktemp("workers")
    for name, changes in (
        ("short", {"steps_per_epoch": 12}),
        ("long", {"steps_per_epoch": 100_000}),
    ):
        settings = tiny_settings(tiny_file, training={**TRAINING, **changes})
        (folder / f"{name}.toml").write_text(dump_config(load_config(settings)), encoding="utf-8")
    return folder
