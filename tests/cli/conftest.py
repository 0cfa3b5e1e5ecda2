import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import SMALL, minigpt
from tests.conftest import made_once, tiny_text


@pytest.fixture(autouse=True)
def commands_of_this_process(without_xla) -> None:
    """Commands in other processes have XLA."""


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    """A folder in which `minigpt train --text book.txt` has run."""

    def train(folder: Path) -> None:
        folder.mkdir()
        (folder / "book.txt").write_text(tiny_text(), encoding="utf-8")
        done = minigpt("train", "--text", "book.txt", *SMALL, cwd=folder)
        (folder / "done.json").write_text(json.dumps(vars(done)), encoding="utf-8")

    folder = made_once(tmp_path_factory, "user", train)
    done = json.loads((folder / "done.json").read_text(encoding="utf-8"))
    return folder, subprocess.CompletedProcess(**done)
