"""The folder for downloads and token stores, outside the repository."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Returns `$MINIGPT_CACHE`, `$XDG_CACHE_HOME/minigpt` or `~/.cache/minigpt`; it may not exist yet."""
    if path := os.environ.get("MINIGPT_CACHE"):
        return Path(path).expanduser().absolute()
    if path := os.environ.get("XDG_CACHE_HOME"):
        return Path(path).expanduser().absolute() / "minigpt"
    return Path.home() / ".cache" / "minigpt"
