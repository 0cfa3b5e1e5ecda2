"""LiteRT (TensorFlow Lite): one file for phones and small devices."""

import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minigpt.environment import hide_tensorflow_log
from minigpt.targets.model_documents import (
    CachedStep,
    Caches,
    DocumentedTokenizer,
    documents,
    opened_step,
)
from minigpt.targets.targets import STORED, ExportSource, Opened, Target, WeightsType

if TYPE_CHECKING:
    from minigpt.models import GPT

# A prompt is read in parts of up to this many tokens.
_PREFILL_TOKENS = 64


class LiteRT(Target):
    """A file with the signatures `prefill` and `decode`; see docs/litert.md.

    Settings and tokenizer are in a zip archive at the end of the file, where LiteRT's metadata has files.
    With "int8", products are computed in 8 bits too.
    """

    name = "litert"
    is_folder = False
    only_gpt = True
    weights = STORED
    packages = ("ai_edge_litert", "tokenizers")

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        import tensorflow as tf

        with tempfile.TemporaryDirectory() as folder, hide_tensorflow_log():
            _save(source.model, folder)
            converter = tf.lite.TFLiteConverter.from_saved_model(folder)
            if weights != "float32":
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
            if weights == "float16":
                converter.target_spec.supported_types = [tf.float16]
            path.write_bytes(converter.convert())
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            for name, data in documents(source, weights).items():
                # A fixed date: equal models give equal bytes.
                archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return beginning[4:8] == b"TFL3"

    def open(self, path: Path) -> Opened:
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(model_path=str(path))
        prefill, decode = map(interpreter.get_signature_runner, ("prefill", "decode"))
        inputs = prefill.get_input_details()
        size = int(inputs["token_ids"]["shape"][1])
        empty_caches = {
            name: np.zeros(details["shape"], details["dtype"])
            for name, details in inputs.items()
            if name not in ("token_ids", "position", "last")
        }
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}

        def step(ids: Sequence[int], position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
            found: dict[str, np.ndarray] = {}
            for start in range(0, len(ids), size):
                part, place = ids[start : start + size], np.array([position + start], np.int32)
                if len(ids) == 1:
                    found = decode(token_ids=np.array([part], np.int32), position=place, **caches)
                else:
                    padded = np.array([[*part, *[0] * (size - len(part))]], np.int32)
                    last = np.array([len(part) - 1], np.int32)
                    found = prefill(token_ids=padded, position=place, last=last, **caches)
                caches = {name: found[f"new_{name}"] for name in empty_caches}
            return found["logits"], caches

        return opened_step(step, empty_caches, DocumentedTokenizer(files), "ai-edge-litert")


def _save(model: "GPT", folder: str) -> None:
    """Saves the signatures. From a plain tf.Module, the converter would make a file without weights."""
    import keras
    import tensorflow as tf

    step = CachedStep(model)
    # The largest divisor of the context: parts at its multiples end within the context.
    sizes = range(1, min(model.max_len, _PREFILL_TOKENS) + 1)
    tokens = max(size for size in sizes if model.max_len % size == 0)
    last = tf.TensorSpec([1], tf.int32, "last")
    ids, position, *caches = step.signature(1, tokens)
    archive = keras.export.ExportArchive()
    archive.track(step.model)

    def prefill(token_ids: Any, position: Any, last: Any, *caches: Any) -> dict[str, Any]:
        return step.step(token_ids, position, *caches, last=last)

    def decode(token_id: Any, position: Any, *caches: Any) -> dict[str, Any]:
        return step.step(token_id, position, *caches, last=tf.zeros_like(position))

    archive.add_endpoint("prefill", prefill, [ids, position, last, *caches])
    archive.add_endpoint("decode", decode, step.signature(1, 1))
    with redirect_stdout(StringIO()):
        archive.write_out(folder, verbose=False)
