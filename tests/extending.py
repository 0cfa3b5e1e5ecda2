"""The examples of docs/adding-*.md, applied to a copy of the package, which then trains and exports."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import minigpt

PACKAGE = Path(minigpt.__file__).parent
DOCUMENTS = PACKAGE.parent / "docs"
SETTINGS = (
    "tokenizer.vocab_size=320",
    "model.max_len=16",
    "model.embed_dim=8",
    "model.num_heads=2",
    "model.num_layers=1",
    "training.epochs=1",
    "training.steps_per_epoch=2",
    "training.batch_size=4",
    "sampling.max_new_tokens=8",
)
# Imported by the code that runs in the copy.
BEGINNING = """
import contextlib
from pathlib import Path
import minigpt
from tests.cli.running import called
from tests.conftest import nothing_compiled
from tests.extending import SETTINGS

assert Path(minigpt.__file__).is_relative_to(Path.cwd()), minigpt.__file__
uncompiled = contextlib.ExitStack()
uncompiled.enter_context(nothing_compiled())

def command(*arguments):
    done = called(*arguments)
    assert done.returncode == 0, done
    return done.stdout

def train(*settings):
    options = [part for setting in (*SETTINGS, *settings) for part in ("--set", setting)]
    return command("train", "--run", "run", "--text", "text.txt", *options)
"""


class ExtendedPackage:
    """A copy of the package with changes.

    Args:
      folder: an empty folder, for the copy and what it writes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, folder / "minigpt", ignore=ignored)
        for name in ("configs", "data"):
            if (PACKAGE.parent / name).is_dir():
                (folder / name).symlink_to(PACKAGE.parent / name)
        self._environment = {
            **os.environ,
            # The package is the copy; `tests` are those here.
            "PYTHONPATH": f"{folder}{os.pathsep}{PACKAGE.parent}",
            "GIT_CEILING_DIRECTORIES": "/",
        }

    def apply(self, document: str) -> list[list[str]]:
        """Applies the diffs of a file in docs/; returns the names of the files of each."""
        text = (DOCUMENTS / document).read_text(encoding="utf-8")
        found = []
        for diff in re.findall(r"```diff\n(.*?)```", text, re.DOTALL):
            command = ["git", "apply", "-"]
            options = {"cwd": self.folder, "env": self._environment}
            subprocess.run(command, input=diff, text=True, check=True, **options)
            found.append(re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE))
        return found

    def python(self, code: str) -> None:
        """Runs code that imports the copy, in a process of its own and without XLA.

        Args:
          code: may use `command`, which takes the arguments of a command of `minigpt` and returns
            its output, and `train`, which trains a tiny model in the folder `run`, with settings
            such as "model.num_layers=1" in place of the usual ones, and returns the output.
        """
        text = self.folder / "text.txt"
        text.write_text("Ana sat on the hill, and Béla ate 7 figs.\n" * 100, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", BEGINNING + code],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
