"""Reading the weights of a folder: `model.safetensors`, or several files and their index."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from minigpt.errors import UserError
from minigpt.huggingface.architecture import HEAD, Architecture

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
MAX_PROBLEMS = 10  # In the wrong file, every tensor differs.


class Weights:
    """The tensors of memory-mapped files, read one at a time.

    Names omit the architecture's prefix. Its buffers are left out.
    """

    def __init__(self, folder: Path, files: Mapping[Path, Any], architecture: Architecture) -> None:
        self.folder = folder
        self.architecture = architecture
        buffers = architecture.buffers
        self._tensors: dict[str, tuple[Path, Any]] = {}
        for path, file in files.items():
            for stored in file.keys():  # noqa: SIM118  # not a dictionary
                name = stored.removeprefix(architecture.prefix)
                if buffers is None or not buffers.fullmatch(name):
                    self._tensors[name] = (path, file.get_slice(stored))

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor as float32, whatever its type in the file.

        Raises:
          UserError: it cannot be read.
        """
        path, stored = self._tensors[name]
        try:
            return np.asarray(stored[:], "float32")
        except (TypeError, ValueError, SafetensorError) as error:
            raise UserError(f"{path}: {name}: cannot be read: {error}") from None

    def check(self, expected: Mapping[str, tuple[int, ...]], tied: bool) -> None:
        """Compares names and shapes with those that config.json implies.

        Args:
          expected: the shape of every tensor, from `tensor_shapes`.
          tied: whether the head is the token table. The files may then contain an equal head.
        Raises:
          UserError: tensors are missing, unexpected or have a different shape; one problem each.
        """
        tokens = self.architecture.tokens
        problems = [
            f"{self.folder}: {name}: is missing; expected a tensor of shape {list(shape)}"
            for name, shape in expected.items()
            if name not in self._tensors
        ]
        for name, (path, stored) in self._tensors.items():
            shape = stored.get_shape()
            expected_shape = expected.get(tokens if tied and name == HEAD else name)
            if expected_shape is None:
                problems.append(
                    f"{path}: {name}: of shape {shape}, is not a tensor of this "
                    f"{self.architecture.name}"
                )
            elif tuple(shape) != expected_shape:
                problems.append(
                    f"{path}: {name}: has the shape {shape}; should be {list(expected_shape)} "
                    "by config.json"
                )
        if len(problems) > MAX_PROBLEMS:
            more = len(problems) - MAX_PROBLEMS
            problems[MAX_PROBLEMS:] = [f"{self.folder}: {more} more tensors are missing or wrong"]
        if problems:
            raise UserError(*problems)
        has_copy = tied and HEAD in self._tensors
        if has_copy and not np.array_equal(self.read(HEAD), self.read(tokens)):
            raise UserError(
                f"{self.folder}: {HEAD}: differs from {tokens}; should be equal, because "
                "tie_word_embeddings = true in config.json"
            )


@contextmanager
def open_weights(folder: Path, architecture: Architecture) -> Iterator[Weights]:
    """Opens the weights of a folder, in one file or several.

    Raises:
      UserError: a file is missing, truncated, or not in the safetensors format.
    """
    with ExitStack() as stack:
        files = {}
        for path in _paths(folder):
            try:
                files[path] = stack.enter_context(safe_open(path, framework="numpy"))
            except FileNotFoundError:
                raise UserError(f"{path}: does not exist, but {INDEX} names it") from None
            except (SafetensorError, OSError) as error:
                raise UserError(f"{path}: truncated or not safetensors: {error}") from None
        yield Weights(folder, files, architecture)


def _paths(folder: Path) -> list[Path]:
    if (folder / FILE).is_file():
        return [folder / FILE]
    index = folder / INDEX
    if not index.is_file():
        others = sorted(path.name for path in folder.glob("*.bin"))
        instead = f", not {others[0]}" if others else ""
        raise UserError(f"{folder}: contains no weights; expected {FILE} or {INDEX}{instead}")
    try:
        names = set(json.loads(index.read_bytes())["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{index}: damaged; should be JSON with a weight_map") from None
    invalid = next((n for n in names if not isinstance(n, str) or Path(n).name != n), None)
    if invalid is not None:
        raise UserError(f"{index}: {invalid!r}: should be the name of a file in the same folder")
    return sorted(folder / name for name in names)
