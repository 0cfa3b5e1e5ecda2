"""Readers of exported models, one file for each way of opening them."""

import importlib
import zipfile
from pathlib import Path

from minigpt.errors import ArgumentProblem, UserError
from minigpt.targets.certification.exported import ExportedModel

# Format → module and class: each reader imports the packages that its format needs.
READERS = {
    "saved_model": ("saved_model", "SavedModel"),
    "keras": ("text_model", "KerasFile"),
    "huggingface": ("text_model", "HuggingFaceFolder"),
    "gguf": ("portable", "PortableFile"),
    "html": ("portable", "Page"),
    "litert": ("litert", "LiteRTFile"),
    "onnx": ("onnx", "OnnxFolder"),
    "transformers_js": ("transformers_js", "TransformersJsFolder"),
}
_FILES_IN_FOLDER = {
    "saved_model.pb": "saved_model",
    "model.onnx": "onnx",
    "model.safetensors": "huggingface",
    "onnx/*.onnx": "transformers_js",
}


def open_exported(path: Path, format: str) -> ExportedModel:
    """Opens an exported file or folder.

    Raises:
      UserError: it cannot be read.
    """
    module, name = READERS[format]
    reader: type[ExportedModel] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return reader(path)


def format_of(path: Path) -> str:
    """Returns the format of an exported file or folder, from what it contains.

    Raises:
      UserError: nothing is there, or it has no known format.
    """
    if path.is_dir():
        for name, format in _FILES_IN_FOLDER.items():
            if any(path.glob(name)):
                return format
    else:
        try:
            with path.open("rb") as file:
                beginning = file.read(16)
        except OSError as error:
            raise UserError(ArgumentProblem("path", path, error.strerror or str(error))) from None
        if beginning.startswith(b"GGUF"):
            return "gguf"
        if beginning[4:8] == b"TFL3":
            return "litert"
        if beginning.lower().startswith(b"<!doctype html"):
            return "html"
        if zipfile.is_zipfile(path):
            return "keras"
    raise UserError(ArgumentProblem("path", path, f"is none of the formats {', '.join(READERS)}"))
