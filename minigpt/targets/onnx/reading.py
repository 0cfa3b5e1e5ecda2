"""Opens the folders of the ONNX targets with onnxruntime and the tokenizers package."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.targets.documents import SETTINGS_FILE, Caches, DocumentedTokenizer, opened_step
from minigpt.targets.targets import Opened, WeightsType

# How matrices are stored → the name that transformers.js has for it, and its file.
MODEL_FILES: dict[WeightsType, tuple[str, str]] = {
    "float32": ("fp32", "model.onnx"),
    "float16": ("fp16", "model_fp16.onnx"),
    "int8": ("q8", "model_quantized.onnx"),
}
_PAST, _PRESENT = "past_key_values.", "present."


def open_onnx(path: Path) -> Opened:
    """Opens `model.onnx` and the other files of its folder."""
    session = _session(path / "model.onnx")
    empty_caches = {
        each.name: np.zeros([1, *each.shape[1:]], np.float32)
        for each in session.get_inputs()
        if each.name not in ("token_ids", "position")
    }
    outputs = ["logits", *(f"new_{name}" for name in empty_caches)]
    tokenizer = DocumentedTokenizer(
        {
            str(file.relative_to(path)): file.read_bytes()
            for pattern in ("*.json", "*/*")
            for file in path.glob(pattern)
        }
    )

    def run(ids: Any, position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
        inputs = {
            "token_ids": np.array(ids, np.int32)[None],
            "position": np.array([position], np.int32),
        }
        logits, *updated = session.run(outputs, inputs | caches)
        return logits[0], dict(zip(empty_caches, updated, strict=True))

    return _opened(run, empty_caches, tokenizer)


def open_transformers_js(path: Path) -> Opened:
    """Opens the model in `onnx/`, and the files next to that folder."""
    (model,) = (path / "onnx").glob("*.onnx")
    session = _session(model)
    empty_caches = {
        each.name: np.zeros([1, each.shape[1], 0, each.shape[3]], np.float32)
        for each in session.get_inputs()
        if each.name.startswith(_PAST)
    }
    outputs = ["logits", *(name.replace(_PAST, _PRESENT) for name in empty_caches)]
    generation = json.loads((path / "generation_config.json").read_bytes())
    settings = {
        "weights": next(name for name, (_, file) in MODEL_FILES.items() if file == model.name),
        "max_len": json.loads((path / "tokenizer_config.json").read_bytes())["model_max_length"],
        "end_id": generation["eos_token_id"],
        "undrawable_ids": generation.get("suppress_tokens", []),
    }
    tokenizer = DocumentedTokenizer(
        {
            SETTINGS_FILE: json.dumps(settings).encode(),
            "tokenizer.json": (path / "tokenizer.json").read_bytes(),
        }
    )

    def run(ids: Any, position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
        inputs = {
            "input_ids": np.array(ids, np.int64)[None],
            "attention_mask": np.ones([1, position + len(ids)], np.int64),
        }
        logits, *updated = session.run(outputs, inputs | caches)
        return logits[0], dict(zip(empty_caches, updated, strict=True))

    return _opened(run, empty_caches, tokenizer)


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # No warnings: there is one about each input that has a default.
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _opened(run: Any, empty_caches: Caches, tokenizer: DocumentedTokenizer) -> Opened:
    """Returns what is opened; `run` returns float32[T, V] and the new caches."""

    def step(ids: Sequence[int], position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
        logits, caches = run(ids, position, caches)
        return logits[-1], caches

    def logits(ids: np.ndarray) -> np.ndarray:
        found: np.ndarray = run(ids, 0, empty_caches)[0]
        return found

    return opened_step(step, empty_caches, tokenizer, "onnxruntime", logits)
