"""ONNX as an export: a folder for ONNX Runtime and other programs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.environment import hide_tensorflow_log
from minigpt.targets.model_documents import (
    SETTINGS_FILE,
    CachedStep,
    Caches,
    DocumentedTokenizer,
    documents,
    opened_step,
)
from minigpt.targets.targets import STORED, ExportSource, Opened, Target, WeightsType


class Onnx(Target):
    """A folder with the model as a graph; see docs/onnx.md."""

    name = "onnx"
    is_folder = True
    only_gpt = True
    weights = STORED
    packages = ("onnx", "tf2onnx", "onnxruntime", "tokenizers")

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        import onnx

        from minigpt.targets.onnx.graphs import converted, store_weights

        step = CachedStep(source.model)
        files = documents(source, weights)
        with hide_tensorflow_log():
            graph = store_weights(converted(step.step, step.signature(None, None)), weights)
        onnx.helper.set_model_props(graph, {"minigpt": files[SETTINGS_FILE].decode()})
        onnx.checker.check_model(graph)
        for name, data in files.items():
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_bytes(data)
        onnx.save(graph, path / "model.onnx")

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return (path / "model.onnx").is_file()

    def open(self, path: Path) -> Opened:
        import onnxruntime

        files = {
            str(file.relative_to(path)): file.read_bytes()
            for pattern in ("*.json", "*/*")
            for file in path.glob(pattern)
        }
        options = onnxruntime.SessionOptions()
        # No warnings: there is one about each input that has a default.
        options.log_severity_level = 3
        model, providers = path / "model.onnx", ["CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(model, options, providers=providers)
        empty_caches = {
            each.name: np.zeros([1, *each.shape[1:]], np.float32)
            for each in session.get_inputs()
            if each.name not in ("token_ids", "position")
        }
        outputs = ["logits", *(f"new_{name}" for name in empty_caches)]

        def step(ids: Sequence[int], position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
            inputs: Any = {"token_ids": np.array([ids], np.int32)}
            inputs |= {"position": np.array([position], np.int32), **caches}
            logits, *updated = session.run(outputs, inputs)
            return logits[0], dict(zip(empty_caches, updated, strict=True))

        return opened_step(step, empty_caches, DocumentedTokenizer(files), "onnxruntime")
