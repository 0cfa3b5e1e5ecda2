"""Reads a folder for transformers.js with onnxruntime and the tokenizers package."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.targets.certification.stepped import Caches, SteppedModel
from minigpt.targets.documents import SETTINGS_FILE, DocumentedTokenizer
from minigpt.targets.targets import WeightsType

_PAST, _PRESENT = "past_key_values.", "present."
_WEIGHTS: dict[str, WeightsType] = {
    "model": "float32",
    "model_fp16": "float16",
    "model_quantized": "int8",
}


class TransformersJsFolder(SteppedModel):
    """The model in `onnx/`, and the files beside that folder."""

    packages = ("onnxruntime", "tokenizers")

    def __init__(self, path: Path) -> None:
        import onnxruntime

        (model,) = (path / "onnx").glob("*.onnx")
        self._session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.empty_caches = {
            each.name: np.zeros([1, each.shape[1], 0, each.shape[3]], np.float32)
            for each in self._session.get_inputs()
            if each.name.startswith(_PAST)
        }
        self._outputs = ["logits", *(name.replace(_PAST, _PRESENT) for name in self.empty_caches)]
        generation = json.loads((path / "generation_config.json").read_bytes())
        self.weights = _WEIGHTS[model.stem]
        tokenizer_settings = json.loads((path / "tokenizer_config.json").read_bytes())
        self.max_len = tokenizer_settings["model_max_length"]
        settings = {
            "weights": self.weights,
            "max_len": self.max_len,
            "end_id": generation["eos_token_id"],
            "undrawable_ids": generation.get("suppress_tokens", []),
        }
        self.tokenizer = DocumentedTokenizer(
            {
                SETTINGS_FILE: json.dumps(settings).encode(),
                "tokenizer.json": (path / "tokenizer.json").read_bytes(),
            }
        )

    def logits(self, token_ids: np.ndarray, source_ids: np.ndarray | None = None) -> np.ndarray:
        return self._run(token_ids, 0, self.empty_caches)[0]

    def step(self, ids: Sequence[int], position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
        logits, caches = self._run(ids, position, caches)
        return logits[-1], caches

    def _run(self, ids: Any, position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
        inputs = {
            "input_ids": np.array(ids, np.int64)[None],
            "attention_mask": np.ones([1, position + len(ids)], np.int64),
        }
        logits, *updated = self._session.run(self._outputs, inputs | caches)
        return logits[0], dict(zip(self.empty_caches, updated, strict=True))
