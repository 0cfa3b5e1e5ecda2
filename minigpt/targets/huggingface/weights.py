"""Reading the weights of a folder: `model.safetensors`, `pytorch_model.bin`, or several and their index."""

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from minigpt.errors import UserError
from minigpt.targets.huggingface.architecture import HEAD, Architecture, read_json_object

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
# Files of earlier versions of transformers, which torch reads.
TORCH_FILE, TORCH_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
MAX_PROBLEMS = 10  # In the wrong file, every tensor differs.


class _Tensor(NamedTuple):
    path: Path
    shape: tuple[int, ...]
    read: Callable[[], Any]


class Weights:
    """The tensors of memory-mapped files, read one at a time.

    Names omit the architecture's prefix. Its buffers are left out.
    """

    def __init__(
        self, folder: Path, tensors: Mapping[str, _Tensor], architecture: Architecture
    ) -> None:
        self.folder, self.architecture = folder, architecture
        buffers = architecture.buffers
        named = {name.removeprefix(architecture.prefix): each for name, each in tensors.items()}
        self._tensors = {
            name: each for name, each in named.items() if not (buffers and buffers.fullmatch(name))
        }

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor as float32, whatever its type in the file.

        Raises:
          UserError: it cannot be read.
        """
        tensor = self._tensors[name]
        try:
            return np.asarray(tensor.read(), "float32")
        except (TypeError, ValueError, SafetensorError) as error:
            raise UserError(f"{tensor.path}: {name}: cannot be read: {error}") from None

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
        for name, (path, shape, _) in self._tensors.items():
            right = expected.get(tokens if tied and name == HEAD else name)
            if right is None:
                kind = self.architecture.name
                problems.append(f"{path}: {name}: is not a tensor of this {kind}, by config.json")
            elif shape != right:
                problems.append(
                    f"{path}: {name}: has the shape {list(shape)}; should be {list(right)}"
                )
        if len(problems) > MAX_PROBLEMS:
            more = len(problems) - MAX_PROBLEMS
            problems[MAX_PROBLEMS:] = [f"{self.folder}: {more} more tensors are missing or wrong"]
        if problems:
            raise UserError(*problems)
        has_copy = tied and HEAD in self._tensors
        if has_copy and not np.array_equal(self.read(HEAD), self.read(tokens)):
            raise UserError(f"{self.folder}: {HEAD}: differs from {tokens}, to which it is tied")


@contextmanager
def open_weights(folder: Path, architecture: Architecture) -> Iterator[Weights]:
    """Opens the weights of a folder, in one file or several.

    Raises:
      UserError: a file is missing, truncated, or in neither of the two formats; or torch, which reads one
        of them, is not installed.
    """
    with ExitStack() as stack:
        tensors: dict[str, _Tensor] = {}
        paths, index, is_torch = _paths(folder)
        for path in paths:
            try:
                tensors |= _torch_tensors(path) if is_torch else _safe_tensors(path, stack)
            except FileNotFoundError:
                raise UserError(f"{path}: does not exist, but {index} names it") from None
            except (SafetensorError, OSError, ValueError) as error:
                kind = "a file of torch" if is_torch else "safetensors"
                raise UserError(f"{path}: truncated or not {kind}: {error}") from None
        yield Weights(folder, tensors, architecture)


def _safe_tensors(path: Path, stack: ExitStack) -> dict[str, _Tensor]:
    """Returns the tensors of a safetensors file, which is open until the stack is closed."""
    file: Any = stack.enter_context(safe_open(path, framework="numpy"))
    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # no dictionary
    return {
        name: _Tensor(path, tuple(part.get_shape()), partial(part.__getitem__, slice(None)))
        for name, part in slices.items()
    }


def _torch_tensors(path: Path) -> dict[str, _Tensor]:
    """Returns the tensors of a file of torch. Nothing in it is executed: it may contain tensors only.

    Raises:
      UserError: torch is not installed.
      OSError, ValueError: it is not such a file.
    """
    try:
        import torch
    except ImportError:
        command = shlex.join([sys.executable, "-m", "pip", "install", "torch"])
        raise UserError(
            f"{path}: is read with torch, which is not installed: {command}; or save the model as {FILE}"
        ) from None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        # NumPy has no bfloat16.
        return {
            name: _Tensor(path, tuple(t.shape), lambda t=t: t.float().numpy())  # type: ignore[misc]
            for name, t in found.items()
        }
    except Exception as error:  # For a damaged file, torch may raise any exception.
        raise ValueError(next(iter(str(error).splitlines()), type(error).__name__)) from None


def _paths(folder: Path) -> tuple[list[Path], str, bool]:
    """Returns the files, the name of their index, and whether they are files of torch."""
    for file, index, is_torch in ((FILE, INDEX, False), (TORCH_FILE, TORCH_INDEX, True)):
        if (folder / file).is_file():
            return [folder / file], index, is_torch
        if (folder / index).is_file():
            return _named_files(folder / index), index, is_torch
    expected = f"{FILE}, {INDEX}, {TORCH_FILE} or {TORCH_INDEX}"
    raise UserError(f"{folder}: contains no weights; expected {expected}")


def _named_files(index: Path) -> list[Path]:
    """Returns the files that an index names, which are in its folder."""
    try:
        names = set(read_json_object(index)["weight_map"].values())
        if any(Path(name).name != name for name in names):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{index}: damaged; should have a weight_map to names of files") from None
    return sorted(index.parent / name for name in names)
