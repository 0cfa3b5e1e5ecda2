"""Reads an ONNX folder with onnxruntime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.targets.certification.readers.onnx_text import OnnxTextGraph
from minigpt.targets.certification.stepped import Caches, SteppedModel
from minigpt.targets.documents import DocumentedTokenizer


class OnnxFolder(SteppedModel):
    """`model.onnx` and the files beside it; `text_graph` is `text_to_text.onnx`, if that exists."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        self._session = onnxruntime.InferenceSession(
            path / "model.onnx", providers=["CPUExecutionProvider"]
        )
        self.empty_caches = {
            each.name: np.zeros([1, *each.shape[1:]], np.float32)
            for each in self._session.get_inputs()
            if each.name.startswith(("key_", "value_"))
        }
        self._outputs = ["logits", *(f"new_{name}" for name in self.empty_caches)]
        self.tokenizer = DocumentedTokenizer(
            {
                str(file.relative_to(path)): file.read_bytes()
                for pattern in ("*.json", "*/*")
                for file in path.glob(pattern)
            }
        )
        self.weights = self.tokenizer.settings["weights"]
        self.max_len = self.tokenizer.settings["max_len"]
        self.packages = ("onnxruntime", *self.tokenizer.packages)
        text_file = path / "text_to_text.onnx"
        self.text_graph = OnnxTextGraph(text_file) if text_file.is_file() else None

    def logits(self, token_ids: np.ndarray, source_ids: np.ndarray | None = None) -> np.ndarray:
        return self._run(token_ids, 0, self.empty_caches)[0]

    def step(self, ids: Sequence[int], position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
        logits, caches = self._run(ids, position, caches)
        return logits[-1], caches

    def _run(self, ids: Any, position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
        inputs = {
            "token_ids": np.array(ids, np.int32)[None],
            "position": np.array([position], np.int32),
        }
        logits, *updated = self._session.run(self._outputs, inputs | caches)
        return logits[0], dict(zip(self.empty_caches, updated, strict=True))
