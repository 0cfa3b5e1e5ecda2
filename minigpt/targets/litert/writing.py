"""LiteRT (TensorFlow Lite): one file for phones and small devices."""

import logging
import tempfile
import zipfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import keras
import tensorflow as tf

from minigpt.environment import hide_tensorflow_log
from minigpt.models import GPT
from minigpt.targets.cached_step import CachedStep
from minigpt.targets.documents import documents
from minigpt.targets.targets import ExportSource, WeightsType

# A prompt is read in parts of up to this many tokens.
_PREFILL_TOKENS = 64


def write_litert(source: ExportSource, path: Path, weights: WeightsType) -> None:
    """Writes a LiteRT file with two signatures, `prefill` and `decode`; see docs/litert.md.

    Settings and tokenizer are in a zip archive at the end of the file, where LiteRT's metadata has files.

    Args:
      source: the run.
      path: the new file.
      weights: how matrices are stored. With "int8", products are computed in 8 bits too.
    Raises:
      OSError: the file cannot be written.
    """
    assert isinstance(source.model, GPT)
    step = CachedStep(source.model)
    with tempfile.TemporaryDirectory() as folder, hide_tensorflow_log():
        _save(step, folder)
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


def _save(step: CachedStep, folder: str) -> None:
    """Saves the signatures. From a plain tf.Module, the converter would make a file without weights."""
    tokens, last = prefill_tokens(step.model.max_len), tf.TensorSpec([1], tf.int32, "last")
    ids, position, *caches = step.signature(1, tokens)
    archive = keras.export.ExportArchive()
    archive.track(step.model)
    archive.add_endpoint("prefill", step.step_of_last, [ids, position, last, *caches])
    archive.add_endpoint("decode", step.step_of_one, step.signature(1, 1))
    logger, level = logging.getLogger("tensorflow"), logging.getLogger("tensorflow").level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stdout(StringIO()):
            archive.write_out(folder, verbose=False)
    finally:
        logger.setLevel(level)


def prefill_tokens(max_len: int) -> int:
    """Returns the largest divisor of max_len up to 64: parts at its multiples end within the context."""
    return max(n for n in range(1, min(max_len, _PREFILL_TOKENS) + 1) if max_len % n == 0)
