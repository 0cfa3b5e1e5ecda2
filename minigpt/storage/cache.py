"""The folder for downloads and token stores, outside the repository, and how to write there."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STALE_SECONDS = 24 * 3600


def cache_folder() -> Path:
    """`$MINIGPT_CACHE`, `$XDG_CACHE_HOME/minigpt` or `~/.cache/minigpt`; it need not exist yet."""
    if chosen := os.environ.get("MINIGPT_CACHE"):
        return Path(chosen).expanduser().absolute()
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches).expanduser().absolute() / "minigpt"
    return Path.home() / ".cache" / "minigpt"


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A new hidden folder in `parent`, removed at the end whatever happens, unless it was renamed.

    What a killed process left behind is removed by the first one that comes by a day later.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(".scratch-*"):
        try:
            stale = time.time() - left.stat().st_mtime > _STALE_SECONDS
        except FileNotFoundError:
            continue
        if stale:
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=".scratch-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
