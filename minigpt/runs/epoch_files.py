"""The weights after each epoch, as portable files: which of them a run keeps, and their names.

    epochs/epoch-0001.gguf

At most `MAX_FILES` are kept, at equal distances, and always those of the first and the newest epoch. The
distance is a power of two and depends on the number of epochs alone. So the files of a longer training are
among those of a shorter one, and training that is resumed ends with the same files.
"""

import re
from pathlib import Path

from minigpt.storage.atomic import remove_abandoned

MAX_FILES = 50
_NAME = re.compile(r"epoch-(\d{4,18})\.gguf")


def epoch_file_name(epoch: int) -> str:
    """Returns the name of the file of an epoch; the first epoch is 1."""
    return f"epoch-{epoch:04}.gguf"


def epoch_paths(folder: Path) -> list[Path]:
    """Returns the paths of all epoch files in a folder, the first epoch first."""
    return [path for _, path in sorted(_numbered(folder))]


def kept_epochs(ended: int) -> list[int]:
    """Returns the epochs whose files are kept when `ended` epochs have ended, in ascending order."""
    distance = 1
    while True:
        kept = range(1, ended + 1, distance)
        # The newest one is kept in addition if it is not one of them.
        if not ended or len(kept) + (kept[-1] != ended) <= MAX_FILES:
            return sorted({*kept, ended} - {0})
        distance *= 2


def remove_epoch_files(folder: Path, ended: int) -> None:
    """Removes the files that are not kept when `ended` epochs have ended, later ones included.

    Also removes the unfinished files of killed processes. The caller holds the run's lock.

    Args:
      folder: the folder of epoch files; may be missing.
      ended: the number of epochs that have ended.
    Raises:
      OSError: a file cannot be removed.
    """
    remove_abandoned(folder)
    kept = set(kept_epochs(ended))
    for epoch, path in _numbered(folder):
        if epoch not in kept:
            path.unlink()


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    found = []
    for path in folder.glob("epoch-*.gguf"):
        if match := _NAME.fullmatch(path.name):
            found.append((int(match[1]), path))
    return found
