"""The formats of an export, by name. Imports no TensorFlow before one is written."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from minigpt.environment import install_command
from minigpt.errors import ArgumentProblem, UserError

if TYPE_CHECKING:
    from minigpt.targets.source import ExportSource

STORED = ("float32", "float16", "int8")


@dataclass(frozen=True)
class Format:
    """A format of an export.

    Attributes:
      writer: module and name of the function that writes it: (source, path, weights) → None. The path is
        that of a new file, or of an empty folder.
      is_folder: whether it is a folder.
      weights: the ways in which it can store matrices.
      packages: the modules that the format needs, of the extra with the format's name.
    """

    writer: tuple[str, str]
    is_folder: bool
    weights: tuple[str, ...] = ("float32",)
    packages: tuple[str, ...] = ()


FORMATS = {
    "saved_model": Format(("saved_model.writing", "write_saved_model"), is_folder=True),
    "keras": Format(("keras_file.writing", "write_keras"), is_folder=False),
    "huggingface": Format(("huggingface.writing", "write_huggingface"), is_folder=True),
    "gguf": Format(("portable", "write_gguf"), False, STORED),
    "html": Format(("portable", "write_html"), False, STORED),
    "litert": Format(
        ("litert.writing", "write_litert"), False, STORED, ("ai_edge_litert", "tokenizers")
    ),
    "onnx": Format(
        ("onnx.writing", "write_onnx"),
        True,
        STORED,
        ("onnx", "tf2onnx", "onnxruntime", "tokenizers"),
    ),
    "transformers_js": Format(
        ("onnx.transformers_js", "write_transformers_js"),
        True,
        STORED,
        ("onnx", "tf2onnx", "onnxruntime", "tokenizers"),
    ),
}


def writer_of(name: str) -> Callable[["ExportSource", Path, str], None]:
    """Returns the function that writes a format.

    Raises:
      UserError: a package that the format needs is not installed.
    """
    format = FORMATS[name]
    absent = [package for package in format.packages if find_spec(package) is None]
    if absent:
        problem = f"{', '.join(absent)} not installed: {install_command(name)}"
        raise UserError(ArgumentProblem("format", name, problem))
    module, function = format.writer
    write: Callable[[ExportSource, Path, str], None] = getattr(
        importlib.import_module(f"minigpt.targets.{module}"), function
    )
    return write
