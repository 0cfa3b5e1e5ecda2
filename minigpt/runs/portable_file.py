"""Whether the portable file of a run can be used. Imports little: `minigpt sample` begins with it."""

from pathlib import Path

from minigpt.runs.checkpoint_names import checkpoint_paths
from minigpt.storage.files import is_newer

PORTABLE_FILE = "model.gguf"


def is_current(run: Path) -> bool:
    """Returns whether a run has a portable file that is not older than what it is made of.

    Args:
      run: a run directory.
    """
    sources = checkpoint_paths(run / "checkpoints") or [run / "model.keras"]
    return is_newer(run / PORTABLE_FILE, sources)
