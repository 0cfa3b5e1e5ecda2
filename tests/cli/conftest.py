import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import SMALL, minigpt
from tests.conftest import tiny_text


@pytest.fixture(autouse=True)
def commands_of_this_process(without_xla) -> None:
    """Commands in other processes have XLA."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory, runs_folder) -> Path:
    """A folder with a text, `book.txt`, and a run of characters, `runs/book-1`."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "book.txt").write_text(tiny_text(), encoding="utf-8")
    shutil.copytree(runs_folder / "character", folder / "runs" / "book-1")
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    """A folder in which `minigpt train --text book.txt` has run, in a process of its own."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "book.txt").write_text(tiny_text(), encoding="utf-8")
    return folder, minigpt("train", "--text", "book.txt", *SMALL, cwd=folder)
