"""ONNX as an export: a folder for onnxruntime and other programs, and one for transformers.js."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.environment import hide_tensorflow_log
from minigpt.targets.huggingface import HuggingFace
from minigpt.targets.model_documents import (
    SETTINGS_FILE,
    CachedStep,
    Caches,
    DocumentedTokenizer,
    documents,
    opened_step,
)
from minigpt.targets.targets import STORED, ExportSource, Opened, Target, WeightsType

# How matrices are stored → the name that transformers.js has for it, and its file.
MODEL_FILES: dict[WeightsType, tuple[str, str]] = {
    "float32": ("fp32", "model.onnx"),
    "float16": ("fp16", "model_fp16.onnx"),
    "int8": ("q8", "model_quantized.onnx"),
}
_PAST, _PRESENT = "past_key_values.", "present."
_PACKAGES = ("onnx", "tf2onnx", "onnxruntime", "tokenizers")


class Onnx(Target):
    """A folder with the model as a graph; see docs/onnx.md."""

    name = "onnx"
    is_folder = True
    only_gpt = True
    weights = STORED
    packages = _PACKAGES

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.onnx.graphs import converted, store_weights

        step = CachedStep(source.model)
        files = documents(source, weights)
        with hide_tensorflow_log():
            graph = store_weights(converted(step.step, step.signature(None, None)), weights)
        _write(graph, path / "model.onnx", path, files, files[SETTINGS_FILE])

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return (path / "model.onnx").is_file()

    def open(self, path: Path) -> Opened:
        def inputs(ids: Sequence[int], position: int) -> dict[str, np.ndarray]:
            place = np.array([position], np.int32)
            return {"token_ids": np.array([ids], np.int32), "position": place}

        files = {
            str(file.relative_to(path)): file.read_bytes()
            for pattern in ("*.json", "*/*")
            for file in path.glob(pattern)
        }
        return _opened(path / "model.onnx", files, inputs, lambda name: f"new_{name}")


class TransformersJs(HuggingFace):
    """A folder for `pipeline("text-generation", folder)` of transformers.js; see docs/onnx.md."""

    name = "transformers_js"
    weights = STORED
    packages = _PACKAGES

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.huggingface.folders import as_json, described_files
        from minigpt.targets.onnx.graphs import growing_graph, store_weights
        from minigpt.targets.opened_keras import in_float32

        dtype, model_file = MODEL_FILES[weights]
        files = described_files(source.model, source.tokenizer, source.run.config.sampling)
        # Otherwise the dtype would have to be named in browsers, where the default is another one.
        config = json.loads(files["config.json"]) | {"transformers.js_config": {"dtype": dtype}}
        settings = json.loads(files["tokenizer_config.json"])
        # Several prompts at once need a token for padding. The attention mask hides it.
        settings.setdefault("pad_token", settings["eos_token"])
        files |= {"config.json": as_json(config), "tokenizer_config.json": as_json(settings)}
        with hide_tensorflow_log():
            graph = growing_graph(in_float32(source.model), source.tokenizer.end_id)
            graph = store_weights(graph, weights)
        contents = {name: content.encode() for name, content in files.items()}
        model_settings = documents(source, weights)[SETTINGS_FILE]
        _write(graph, path / "onnx" / model_file, path, contents, model_settings)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return any((path / "onnx").glob("*.onnx"))

    def open(self, path: Path) -> Opened:
        (model,) = (path / "onnx").glob("*.onnx")
        generation = json.loads((path / "generation_config.json").read_bytes())
        described = json.loads((path / "tokenizer_config.json").read_bytes())
        settings = {
            "weights": next(name for name, (_, file) in MODEL_FILES.items() if file == model.name),
            "max_len": described["model_max_length"],
            "end_id": generation["eos_token_id"],
            "undrawable_ids": generation.get("suppress_tokens", []),
        }
        files = {
            SETTINGS_FILE: json.dumps(settings).encode(),
            "tokenizer.json": (path / "tokenizer.json").read_bytes(),
        }

        def inputs(ids: Sequence[int], position: int) -> dict[str, np.ndarray]:
            mask = np.ones([1, position + len(ids)], np.int64)
            return {"input_ids": np.array([ids], np.int64), "attention_mask": mask}

        return _opened(model, files, inputs, lambda name: name.replace(_PAST, _PRESENT))


def _write(
    graph: Any, file: Path, folder: Path, files: Mapping[str, bytes], settings: bytes
) -> None:
    """Writes a graph, which has the settings too, and the files beside it."""
    import onnx

    onnx.helper.set_model_props(graph, {"minigpt": settings.decode()})
    onnx.checker.check_model(graph)
    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    file.parent.mkdir(exist_ok=True)
    onnx.save(graph, file)


def _opened(
    model: Path,
    files: Mapping[str, bytes],
    inputs: Callable[[Sequence[int], int], dict[str, np.ndarray]],
    new_name: Callable[[str], str],
) -> Opened:
    """Returns an opened graph.

    Args:
      model, files: the graph; see `DocumentedTokenizer`.
      inputs: (new ids, their position) → the inputs of the graph without the caches.
      new_name: the name of a cache → that of the output with the new one.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # No warnings: there is one about each input that has a default.
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    others = inputs([0], 0)
    # A length that is not fixed is that of the text: 0.
    empty_caches = {
        each.name: np.zeros(
            [1, *(n if isinstance(n, int) else 0 for n in each.shape[1:])], np.float32
        )
        for each in session.get_inputs()
        if each.name not in others
    }
    outputs = ["logits", *map(new_name, empty_caches)]

    def step(ids: Any, position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
        logits, *updated = session.run(outputs, inputs(ids, position) | caches)
        return logits[0], dict(zip(empty_caches, updated, strict=True))

    return opened_step(step, empty_caches, DocumentedTokenizer(files), "onnxruntime")
