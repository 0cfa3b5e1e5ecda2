"""minigpt trains small GPT language models on text, samples from them, and exports them.

Data flow, and the package of each step:

    text → documents → token ids on disk → batch(seed, step) → model → loss
           corpus/     tokenizers/         corpus/             models/  training/

    prompt → token ids → prefill → one token at a time → text
             tokenizers/ generation/                      tokenizers/

Pairs of sentences take the same path: the encoder reads the source, the decoder generates the target.

Shape letters: B batch, T sequence length, S key/value length, D model width, H heads, K query and key
width of a head, U value width of a head, F feed-forward width, V vocabulary size, L layers.

Main functions: `minigpt.train(config)` trains a model and returns its run. `minigpt.resume(run)` resumes
an interrupted run. `minigpt.open_model(run)` opens a model that generates text, with the methods
`generate(prompts)` and `logits(ids)`; a translation model has `translate(texts)`. `minigpt.load(run)` opens
it in TensorFlow, with `model`, `latents(ids)` and `evaluate(texts)`.
"""

import importlib
import os
import re
import sys
import threading
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minigpt.environment import NEEDS_TENSORFLOW, check_keras_backend, hide_tensorflow_log
from minigpt.notices import LOGGER

__version__ = "0.2.0"

# Each worker reports in one line that another has ended; TensorFlow would log it in many lines.
_is_worker = "TF_CONFIG" in os.environ or os.environ.get("SLURM_STEP_NUM_TASKS", "1") != "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3" if _is_worker else "2")
# TensorFlow otherwise reserves all memory of a GPU.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
# Keras ignores an empty value too.
os.environ["KERAS_BACKEND"] = os.environ.get("KERAS_BACKEND") or "tensorflow"

# Importing TensorFlow takes seconds, so a module is imported when its name is first used. The stub for type
# checkers says which module has which name.
_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_MODULES = {name: module for module, name in re.findall(r"from ([\w.]+) import (\w+)", _STUB)}
# These import Keras.
_KERAS = "app evaluation generation insight.examination insight.plan layers models training"
_WITH_KERAS = tuple(f"minigpt.{name}" for name in (*_KERAS.split(), "targets.huggingface"))
_lock = threading.RLock()

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'minigpt' has no attribute {name!r}")
    # Another thread should not see a half-imported Keras.
    with _lock:
        if _MODULES[name].startswith(_WITH_KERAS):
            if find_spec("keras") is None:
                raise ModuleNotFoundError(f"minigpt.{name}: {NEEDS_TENSORFLOW}", name="keras")
            check_keras_backend()
            _import_keras()
        value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return list(__all__)


def _import_keras() -> None:
    """Imports Keras and TensorFlow, and looks for GPUs, without the log lines of both."""
    if "tensorflow" not in sys.modules:
        if sys.stderr and sys.stderr.isatty() and not _is_worker:
            LOGGER.info("loading TensorFlow")  # May take 20 s.
        with hide_tensorflow_log():
            importlib.import_module("keras")
            sys.modules["tensorflow"].config.list_physical_devices("GPU")


def _register_layers(keras: Any) -> None:
    """Registers what `keras.models.load_model` should find when minigpt is imported."""
    if keras.config.backend() == "tensorflow":
        importlib.import_module("minigpt.models.gpt")
        importlib.import_module("minigpt.models.encoder_decoder")
        importlib.import_module("minigpt.training.optimizers")


class _BeforeKeras(MetaPathFinder):
    """Registers the layers when Keras is imported, with wrapt, which TensorFlow brings along.

    wrapt is imported here and not before: it takes a tenth of the time until the first word of
    `minigpt sample`, which imports neither.
    """

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "keras":
            return None
        sys.meta_path.remove(self)
        if find_spec("wrapt") is None:
            return None
        importlib.import_module("wrapt").when_imported("keras")(_register_layers)
        return find_spec("keras")


if "keras" in sys.modules:
    _register_layers(sys.modules["keras"])
else:
    sys.meta_path.insert(0, _BeforeKeras())
