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
import sys
import threading
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
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

# Importing TensorFlow takes seconds, so a module is imported when its name is first used.
# `__init__.pyi` has the same names for type checkers.
_WITHOUT_KERAS = {
    "Config": "minigpt.config",
    "load_config": "minigpt.config",
    "UserError": "minigpt.errors",
    "measure_memorization": "minigpt.insight.memorization",
    "write_report": "minigpt.insight.report.report",
    "RunSummary": "minigpt.insight.run_list",
    "list_runs": "minigpt.insight.run_list",
    "sweep": "minigpt.insight.sweep",
    "InlinePage": "minigpt.pages.notebook",
    "Memorization": "minigpt.runs.analysis",
    "Verdict": "minigpt.runs.analysis",
    "Run": "minigpt.runs.run",
    "PortableTextModel": "minigpt.targets.gguf.text_model",
    "PortableTranslationModel": "minigpt.targets.gguf.text_model",
    "load_portable": "minigpt.targets.gguf.text_model",
    "open_model": "minigpt.targets.open_model",
    "Tokenizer": "minigpt.tokenizers.base",
    "BytePairTokenizer": "minigpt.tokenizers.byte_pair",
    "CharacterTokenizer": "minigpt.tokenizers.character",
    "GPT2Tokenizer": "minigpt.tokenizers.gpt2",
    "WordTokenizer": "minigpt.tokenizers.word",
}
_WITH_KERAS = {
    "export_run": "minigpt.app",
    "resume": "minigpt.app",
    "train": "minigpt.app",
    "verify": "minigpt.app",
    "Evaluation": "minigpt.evaluation.scores",
    "PairEvaluation": "minigpt.evaluation.scores",
    "evaluate_run": "minigpt.generation.run_scores",
    "TextModel": "minigpt.generation.text_models",
    "TranslationModel": "minigpt.generation.text_models",
    "load": "minigpt.generation.text_models",
    "examine": "minigpt.insight.examination",
    "Plan": "minigpt.insight.plan",
    "plan": "minigpt.insight.plan",
    "TokenAndPositionEmbedding": "minigpt.layers",
    "TransformerBlock": "minigpt.layers",
    "GPT": "minigpt.models",
    "EncoderDecoder": "minigpt.models",
    "import_run": "minigpt.targets.huggingface.folders",
    "TextGenerator": "minigpt.training.samples",
    "config_for_text": "minigpt.training.start",
}
_MODULES = _WITHOUT_KERAS | _WITH_KERAS
_lock = threading.RLock()

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'minigpt' has no attribute {name!r}")
    # Another thread should not see a half-imported Keras.
    with _lock:
        if name in _WITH_KERAS:
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
