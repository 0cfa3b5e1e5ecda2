"""ONNX as an export: a folder for onnxruntime and other programs, and one for transformers.js."""

from pathlib import Path

from minigpt.config import TransformerConfig
from minigpt.environment import hide_tensorflow_log
from minigpt.targets.documents import SETTINGS_FILE, documents
from minigpt.targets.huggingface import HuggingFace
from minigpt.targets.targets import STORED, ExportSource, Opened, Target, WeightsType, gpt_problem
from minigpt.tokenizers import Tokenizer

_PACKAGES = ("onnx", "tf2onnx", "onnxruntime", "tokenizers")


class Onnx(Target):
    """A folder with the model as a graph; see docs/onnx.md."""

    name = "onnx"
    is_folder = True
    weights = STORED
    packages = _PACKAGES

    def problem(self, config: TransformerConfig, tokenizer: Tokenizer) -> str | None:
        return gpt_problem(config)

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        import onnx

        from minigpt.targets.cached_step import CachedStep
        from minigpt.targets.onnx.graphs import converted, store_weights

        step = CachedStep(source.gpt)
        files = documents(source, weights)
        with hide_tensorflow_log():
            graph = store_weights(converted(step.step, step.signature(None, None)), weights)
        onnx.helper.set_model_props(graph, {"minigpt": files[SETTINGS_FILE].decode()})
        onnx.checker.check_model(graph)
        onnx.save(graph, path / "model.onnx")
        for name, data in files.items():
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_bytes(data)

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
