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
an interrupted training. `minigpt.load(run)` opens the model of a run, with the methods
`generate(prompts)`, `logits(ids)`, `latents(ids)` and `evaluate(texts)`; a translation model has
`translate(texts)`.
"""

import importlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from minigpt.environment import (
    check_keras_backend,
    check_keras_floatx,
    hide_tensorflow_log,
    when_imported,
)

__version__ = "0.2.0"

# Of several workers, each reports in one line that another has ended; TensorFlow would log it at length.
_is_worker = "TF_CONFIG" in os.environ or os.environ.get("SLURM_STEP_NUM_TASKS", "1") != "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3" if _is_worker else "2")
# TensorFlow otherwise reserves all memory of a GPU.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
# Keras ignores an empty value too.
os.environ["KERAS_BACKEND"] = os.environ.get("KERAS_BACKEND") or "tensorflow"

if TYPE_CHECKING:
    # An alias marks a name as public for type checkers.
    from minigpt.app import export_run as export_run
    from minigpt.app import resume as resume
    from minigpt.app import train as train
    from minigpt.app import verify as verify
    from minigpt.config import Config as Config
    from minigpt.config import load_config as load_config
    from minigpt.corpus.fit import config_for_text as config_for_text
    from minigpt.errors import UserError as UserError
    from minigpt.evaluation import Evaluation as Evaluation
    from minigpt.evaluation import PairEvaluation as PairEvaluation
    from minigpt.evaluation import evaluate_run as evaluate_run
    from minigpt.generation.text_models import TextModel as TextModel
    from minigpt.generation.text_models import TranslationModel as TranslationModel
    from minigpt.generation.text_models import load as load
    from minigpt.insight.examination import examine as examine
    from minigpt.insight.forecast.plan import Forecast as Forecast
    from minigpt.insight.forecast.plan import plan as plan
    from minigpt.insight.memorization import Memorization as Memorization
    from minigpt.insight.memorization import measure_memorization as measure_memorization
    from minigpt.insight.report.report import write_report as write_report
    from minigpt.insight.run_list import RunSummary as RunSummary
    from minigpt.insight.run_list import list_runs as list_runs
    from minigpt.layers import TokenAndPositionEmbedding as TokenAndPositionEmbedding
    from minigpt.layers import TransformerBlock as TransformerBlock
    from minigpt.models import GPT as GPT
    from minigpt.models import EncoderDecoder as EncoderDecoder
    from minigpt.runs.analysis import Verdict as Verdict
    from minigpt.runs.run import Run as Run
    from minigpt.targets.gguf.loading import load_portable as load_portable
    from minigpt.targets.gguf.text_model import PortableTextModel as PortableTextModel
    from minigpt.targets.gguf.text_model import (
        PortableTranslationModel as PortableTranslationModel,
    )
    from minigpt.targets.huggingface.importing import import_run as import_run
    from minigpt.tokenizers import Tokenizer as Tokenizer
    from minigpt.tokenizers.byte_pair import BytePairTokenizer as BytePairTokenizer
    from minigpt.tokenizers.character import CharacterTokenizer as CharacterTokenizer
    from minigpt.tokenizers.gpt2 import GPT2Tokenizer as GPT2Tokenizer
    from minigpt.tokenizers.word import WordTokenizer as WordTokenizer
    from minigpt.training.callbacks.text_generator import TextGenerator as TextGenerator

# Importing TensorFlow takes seconds, so a module is imported when its name is first used.
_MODULES = {
    "BytePairTokenizer": "minigpt.tokenizers.byte_pair",
    "CharacterTokenizer": "minigpt.tokenizers.character",
    "Config": "minigpt.config",
    "EncoderDecoder": "minigpt.models",
    "Evaluation": "minigpt.evaluation",
    "Forecast": "minigpt.insight.forecast.plan",
    "GPT": "minigpt.models",
    "GPT2Tokenizer": "minigpt.tokenizers.gpt2",
    "Memorization": "minigpt.insight.memorization",
    "PairEvaluation": "minigpt.evaluation",
    "PortableTextModel": "minigpt.targets.gguf.text_model",
    "PortableTranslationModel": "minigpt.targets.gguf.text_model",
    "Run": "minigpt.runs.run",
    "RunSummary": "minigpt.insight.run_list",
    "TextGenerator": "minigpt.training.callbacks.text_generator",
    "TextModel": "minigpt.generation.text_models",
    "TokenAndPositionEmbedding": "minigpt.layers",
    "Tokenizer": "minigpt.tokenizers.base",
    "TransformerBlock": "minigpt.layers",
    "TranslationModel": "minigpt.generation.text_models",
    "UserError": "minigpt.errors",
    "Verdict": "minigpt.runs.analysis",
    "WordTokenizer": "minigpt.tokenizers.word",
    "config_for_text": "minigpt.corpus.fit",
    "evaluate_run": "minigpt.evaluation",
    "examine": "minigpt.insight.examination",
    "export_run": "minigpt.app",
    "import_run": "minigpt.targets.huggingface.importing",
    "list_runs": "minigpt.insight.run_list",
    "load": "minigpt.generation.text_models",
    "load_config": "minigpt.config",
    "load_portable": "minigpt.targets.gguf.loading",
    "measure_memorization": "minigpt.insight.memorization",
    "plan": "minigpt.insight.forecast.plan",
    "resume": "minigpt.app",
    "train": "minigpt.app",
    "verify": "minigpt.app",
    "write_report": "minigpt.insight.report.report",
}
_lock = threading.RLock()
_WITHOUT_KERAS = {
    "BytePairTokenizer",
    "CharacterTokenizer",
    "Config",
    "Forecast",
    "GPT2Tokenizer",
    "Memorization",
    "PortableTextModel",
    "PortableTranslationModel",
    "Run",
    "RunSummary",
    "Tokenizer",
    "UserError",
    "Verdict",
    "WordTokenizer",
    "config_for_text",
    "list_runs",
    "load_config",
    "load_portable",
    "measure_memorization",
    "write_report",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'minigpt' has no attribute {name!r}")
    # Another thread should not see a half-imported Keras.
    with _lock:
        if name not in _WITHOUT_KERAS:
            check_keras_backend()
            _import_keras()
            check_keras_floatx()
        value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return list(__all__)


def _import_keras() -> None:
    """Imports Keras and TensorFlow, and looks for GPUs, without the log lines of both."""
    if "tensorflow" not in sys.modules:
        with hide_tensorflow_log():
            importlib.import_module("keras")
            sys.modules["tensorflow"].config.list_physical_devices("GPU")


def _register_layers(keras: Any) -> None:
    """Registers what `keras.models.load_model` should find when minigpt is imported."""
    if keras.config.backend() == "tensorflow":
        importlib.import_module("minigpt.models.gpt")
        importlib.import_module("minigpt.models.encoder_decoder")
        importlib.import_module("minigpt.distribution.divided_muon")


when_imported("keras", _register_layers)
