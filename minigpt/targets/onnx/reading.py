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
TEXT_FILE = "text_to_text.onnx"
# Texts that the graph from prompts to texts reads at a time.
_ROWS = 64
_PAST, _PRESENT = "past_key_values.", "present."


def open_onnx(path: Path) -> Opened:
    """Opens `model.onnx`, the other files of its folder and, if it exists, `text_to_text.onnx`."""
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

    text_file = path / TEXT_FILE
    text_graph = _open_text_graph(text_file) if text_file.is_file() else None
    return _opened(run, empty_caches, tokenizer, text_graph)


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

    return _opened(run, empty_caches, tokenizer, None)


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # No warnings: there is one about each input that has a default.
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _opened(
    run: Any, empty_caches: Caches, tokenizer: DocumentedTokenizer, text_graph: Opened | None
) -> Opened:
    """Returns what is opened; `run` returns float32[T, V] and the new caches."""

    def step(ids: Sequence[int], position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
        logits, caches = run(ids, position, caches)
        return logits[-1], caches

    def logits(ids: np.ndarray) -> np.ndarray:
        found: np.ndarray = run(ids, 0, empty_caches)[0]
        return found

    return opened_step(step, empty_caches, tokenizer, "onnxruntime", logits, text_graph)


def _open_text_graph(path: Path) -> Opened:
    """Opens the graph from prompts to continuations, which needs onnxruntime alone."""
    session = _session(path)

    def run(output: str, prompts: Sequence[str], max_new_tokens: int) -> Any:
        inputs = {
            "prompt": np.array(prompts, object),
            "max_new_tokens": np.array(max_new_tokens, np.int32),
            "temperature": np.array(0, np.float32),
            "top_k": np.array(0, np.int32),
            "top_p": np.array(1, np.float32),
            "seed": np.array(0, np.int32),
        }
        return session.run([output], inputs)[0]

    def encode(lines: Sequence[str]) -> list[list[int]]:
        # Texts of similar length together: a row is as long as the longest one.
        order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
        found: dict[int, list[int]] = {}
        for start in range(0, len(order), _ROWS):
            some = order[start : start + _ROWS]
            rows = run("prompt_ids", [lines[i] for i in some], 0)
            found |= {i: row[row >= 0].tolist() for i, row in zip(some, rows, strict=True)}
        return [found[i] for i in range(len(lines))]

    def continue_greedily(prompts: Sequence[str], max_new_tokens: int) -> list[str]:
        return [
            text
            for start in range(0, len(prompts), _ROWS)
            for text in run("text", prompts[start : start + _ROWS], max_new_tokens)
        ]

    return Opened(encode, continue_greedily, ("onnxruntime",))
