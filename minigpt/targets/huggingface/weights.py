"""Reading the weights of a folder: `model.safetensors`, or several such files and their index."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from minigpt.errors import UserError
from minigpt.targets.huggingface.architecture import HEAD, Architecture, read_json_object

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
MAX_PROBLEMS = 10  # In the wrong file, every tensor differs.


@contextmanager
def open_weights(
    folder: Path, architecture: Architecture, expected: Mapping[str, tuple[int, ...]], tied: bool
) -> Iterator[Callable[[str], np.ndarray]]:
    """Opens the weights of a folder, and compares names and shapes with those that config.json implies.

    Args:
      folder: the folder.
      architecture: names omit its prefix; its buffers are left out.
      expected: the shape of every tensor.
      tied: whether the head is the token table. The files may then contain an equal head.
    Yields:
      A function that reads the tensor with a name as float32, whatever its type in the file.
    Raises:
      UserError: a file is missing or damaged; tensors are missing, unexpected or have a different shape.
    """
    with ExitStack() as stack:
        tensors: dict[str, Any] = {}
        for path in _files(folder):
            try:
                file: Any = stack.enter_context(safe_open(path, framework="numpy"))
                tensors |= {n: file.get_slice(n) for n in file.keys()}  # noqa: SIM118  # no dictionary
            except (SafetensorError, OSError) as error:
                raise UserError(f"{path}: cannot be read: {error}") from None
        tensors = {name.removeprefix(architecture.prefix): each for name, each in tensors.items()}
        if buffers := architecture.buffers:
            tensors = {n: each for n, each in tensors.items() if not buffers.fullmatch(n)}

        def read(name: str) -> np.ndarray:
            return np.asarray(tensors[name][:], "float32")

        shapes = dict(expected)
        if tied and HEAD in tensors:
            shapes[HEAD] = shapes[architecture.tokens]
        found = {name: tuple(each.get_shape()) for name, each in tensors.items()}
        problems = [
            f"{folder}: {name}: has the shape {_shown(found, name)}; should be {_shown(shapes, name)}"
            for name in sorted(shapes.keys() | found.keys())
            if shapes.get(name) != found.get(name)
        ]
        if more := len(problems[MAX_PROBLEMS:]):
            problems[MAX_PROBLEMS:] = [f"{folder}: {more} more tensors are missing or wrong"]
        if problems:
            raise UserError(*problems)
        if HEAD in shapes.keys() - expected.keys():
            tokens = architecture.tokens
            if not np.array_equal(read(HEAD), read(tokens)):
                raise UserError(f"{folder}: {HEAD}: differs from {tokens}, to which it is tied")
        yield read


def _shown(shapes: Mapping[str, tuple[int, ...]], name: str) -> str:
    return str(list(shapes[name])) if name in shapes else "of no tensor"


def _files(folder: Path) -> list[Path]:
    """Returns the file, or those that an index names, which are in its folder."""
    if (folder / FILE).is_file():
        return [folder / FILE]
    if not (index := folder / INDEX).is_file():
        raise UserError(
            f"{folder}: contains no {FILE}; transformers converts other files: "
            "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)"
        )
    try:
        names = set(read_json_object(index)["weight_map"].values())
        if any(Path(name).name != name for name in names):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{index}: damaged; should have a weight_map to names of files") from None
    return sorted(folder / name for name in names)
