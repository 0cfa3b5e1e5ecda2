"""The examples of docs/adding-*.md, applied to a copy of the package, which then trains and exports."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
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
    "training.jit_compile=false",
    "sampling.max_new_tokens=8",
)


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
            "PYTHONPATH": str(folder),
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

    def run(self, *arguments: str) -> str:
        """Returns the output of a command of the copy, such as "sample", "run"."""
        return self.python("-m", "minigpt", *arguments)

    def python(self, *arguments: str) -> str:
        """Returns the output of a Python program that imports the copy."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def train(self, settings: Sequence[str] = (), run: str = "run") -> str:
        """Trains a tiny model on a text of its own; returns the output."""
        text = self.folder / "text.txt"
        text.write_text("Ana sat on the hill, and Béla ate 7 figs.\n" * 100, encoding="utf-8")
        options = [part for setting in (*SETTINGS, *settings) for part in ("--set", setting)]
        return self.run("train", "--run", run, "--text", text.name, *options)
