"""The names of checkpoints and their order."""

import re
from pathlib import Path

_NAME = re.compile(r"step-(\d{8,})(?:-epoch-(\d+))?")


def checkpoint_name(step: int, epoch: int | None = None) -> str:
    """Returns the name of a checkpoint's folder.

    Args:
      step: the number of weight updates made.
      epoch: the number of the epoch that ended there, from 1; None within an epoch.
    """
    return f"step-{step:08}" + ("" if epoch is None else f"-epoch-{epoch}")


def checkpoint_paths(folder: Path) -> list[Path]:
    """Returns the paths of all checkpoints in a folder, damaged ones included, oldest first."""
    paths = []
    for path in folder.glob("step-*"):
        if match := _NAME.fullmatch(path.name):
            paths.append((int(match[1]), int(match[2] or 0), path))
    return [path for _, _, path in sorted(paths)]
