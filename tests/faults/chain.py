"""A run that is stopped repeatedly, and the checks after every stop."""

import json
import zipfile
from pathlib import Path
from typing import Any

from minigpt.config import dump_config, load_config
from minigpt.runs.checkpoints import read_checkpoint
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.run import Run
from tests.conftest import tiny_settings, tiny_text
from tests.faults.warm import Ended, Warm
from tests.same_runs import assert_same

SETTINGS: dict[str, dict[str, Any]] = {
    "training": {
        "epochs": 2,
        "steps_per_epoch": 12,
        "checkpoint_every_steps": 5,
        "deterministic": True,
    },
    "model": {"num_layers": 1, "embed_dim": 8, "dropout_rate": 0.1},
    "sampling": {"max_new_tokens": 3, "prompts": ["Ana sat"]},
}


class Chain:
    """The processes of one training, each forked, one after the other.

    Args:
      warm: forks the processes.
      folder: a new folder for configuration, cache and run.
      no_export: whether to skip the export, which takes longer than the training.

    Attributes:
      operations: the file operations of the last process.
    """

    def __init__(self, warm: Warm, folder: Path, no_export: bool = False) -> None:
        self.warm, self.folder, self.no_export = warm, folder, no_export
        folder.mkdir()
        self.path = folder / "run"
        self.operations: list[str] = []
        # Outside of the folder: config.toml names it, and is compared.
        text = folder.parent / "tiny.txt"
        text.write_text(tiny_text(), encoding="utf-8")
        chosen = tiny_settings(text, **SETTINGS)
        (folder / "chosen.toml").write_text(dump_config(load_config(chosen)), encoding="utf-8")

    @property
    def has_begun(self) -> bool:
        return (self.path / "config.toml").is_file()

    @property
    def newest_step(self) -> int:
        """The step of the newest checkpoint; -1 if there is none."""
        found = checkpoint_paths(self.path / "checkpoints")
        return int(found[-1].name.split("-")[1]) if found else -1

    def go_on(self, **fault: Any) -> Ended:
        """Runs one more process, and checks the run directory after it.

        Args:
          **fault: the fault to inject; see `Warm.run`.
        """
        before = self.newest_step
        command = ["train", "--resume", "run"]
        if not self.has_begun:
            command = ["train", "--config", "chosen.toml", "--run", "run"]
        ended = self.warm.run(
            command,
            self.folder,
            watch=[self.folder / name for name in ("run", ".minigpt-", "cache")],
            no_export=self.no_export,
            **fault,
        )
        self.operations = ended.operations
        assert not ended.hung, (fault, ended.out)
        assert "Traceback" not in ended.err, (fault, ended.err)
        assert self.newest_step >= before, fault
        self.check()
        return ended

    def check(self) -> None:
        """Checks that the run and all of its visible checkpoints are complete."""
        if not self.path.exists():
            return
        run = Run(self.path)
        run.load_tokenizer()
        assert run.config and run.corpus
        for path in checkpoint_paths(run.checkpoints_folder):
            read_checkpoint(path)
        for file in (run.metrics_file, run.samples_file):
            if file.exists():
                for line in file.read_bytes().splitlines(True)[:-1]:
                    json.loads(line)
        if run.model_file.exists():
            assert zipfile.ZipFile(run.model_file).testzip() is None

    def assert_ended_like(self, other: "Chain") -> None:
        """Compares the run directories bit for bit."""
        actual, expected = Run(self.path), Run(other.path)
        assert_same(actual, expected)
        assert _names(self.path) == _names(other.path)
        if not self.no_export:
            for name in ("config.json", "model.weights.h5"):
                assert _member(actual.model_file, name) == _member(expected.model_file, name)
            assert _names(actual.saved_model_folder) == _names(expected.saved_model_folder)


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _member(file: Path, name: str) -> bytes:
    return zipfile.ZipFile(file).read(name)
