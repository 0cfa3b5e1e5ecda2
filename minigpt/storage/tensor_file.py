"""Writing arrays in the safetensors format. The safetensors library reads them."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file


def write_tensors(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a safetensors file. Contiguous arrays are not copied in memory.

    Args:
      path: the file; its directory exists.
      arrays: the arrays by name.
      metadata: the strings in the file's header.
    Raises:
      OSError: the file cannot be written.
    """
    # The library reads each array's memory from its first byte.
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    # The library replaces the file with one that only its owner can read.
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(contiguous, path, dict(metadata) if metadata else None)
    except SafetensorError as error:
        if match := re.search(r"os error (\d+)", str(error)):
            number = int(match[1])
            raise OSError(number, os.strerror(number), str(path)) from None
        raise
    path.chmod(mode)
