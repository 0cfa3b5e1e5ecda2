"""ONNX as an export: a folder for onnxruntime and other programs, and one for transformers.js."""

from pathlib import Path

from minigpt.config import TransformerConfig
from minigpt.targets.huggingface.target import HuggingFace
from minigpt.targets.opened import Opened
from minigpt.targets.targets import STORED, ExportSource, Target, WeightsType, gpt_problem
from minigpt.tokenizers import Tokenizer

_PACKAGES = ("onnx", "tf2onnx", "onnxruntime", "tokenizers")


class Onnx(Target):
    """A folder with the model as a graph; see docs/onnx.md.

    A tokenizer that ONNX cannot express leaves out `text_to_text.onnx`, with a warning.
    """

    name = "onnx"
    is_folder = True
    weights = STORED
    packages = _PACKAGES

    def problem(self, config: TransformerConfig, tokenizer: Tokenizer) -> str | None:
        return gpt_problem(config)

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.onnx.writing import write_onnx

        write_onnx(source, path, weights)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return (path / "model.onnx").is_file()

    def open(self, path: Path) -> Opened:
        from minigpt.targets.onnx.reading import open_onnx

        return open_onnx(path)


class TransformersJs(HuggingFace):
    """A folder for `pipeline("text-generation", folder)` of transformers.js; see docs/onnx.md."""

    name = "transformers_js"
    weights = STORED
    packages = _PACKAGES

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.onnx.transformers_js import write_transformers_js

        write_transformers_js(source, path, weights)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return any((path / "onnx").glob("*.onnx"))

    def open(self, path: Path) -> Opened:
        from minigpt.targets.onnx.reading import open_transformers_js

        return open_transformers_js(path)
