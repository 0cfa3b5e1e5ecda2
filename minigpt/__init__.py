"""minigpt trains miniature GPTs: point it at text, watch it learn to write, ship the model.

The way of the data, and where it is written down:

    text → documents → token ids on disk → batch(seed, step) → model → loss
           corpus/     tokenizers/         corpus/batches      models/  training/

    prompt → token ids → prefill → one token at a time → text
             tokenizers/ generation/                      tokenizers/

Pairs of sentences go the same way: the encoder reads the source, the decoder writes the target.

Shape letters used everywhere: B batch, T sequence length, S key/value length, D model width, H heads,
K query and key width of a head, U value width, F feed-forward width, V vocabulary, L layers.

In Python: `minigpt.train(config)` trains and returns the run, `minigpt.resume(run)` goes on with one that
was interrupted; `minigpt.load(run)` opens it for
`.generate(prompts)`, `.logits(ids)`, `.latents(ids)` and `.evaluate(texts)`; a model of pairs for
`.translate(texts)`.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

import wrapt

from minigpt.environment import hide_tensorflow_log

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# A GPU's memory is taken as it is needed, not all at once.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

if TYPE_CHECKING:
    from minigpt.config import Config, load_config
    from minigpt.corpus.sizes import config_for_text
    from minigpt.errors import UserError
    from minigpt.evaluation import PairEvaluation, evaluate_run
    from minigpt.export import export_run
    from minigpt.huggingface.importing import import_run
    from minigpt.inference.loading import load
    from minigpt.inference.text_model import TextModel
    from minigpt.inference.translation_model import TranslationModel
    from minigpt.runs.run import Run
    from minigpt.training.callbacks.text_generator import TextGenerator
    from minigpt.training.pipeline import resume, train

# TensorFlow takes seconds to import: a mistyped setting should not wait for it.
_HOMES = {
    "Config": "minigpt.config",
    "PairEvaluation": "minigpt.evaluation",
    "Run": "minigpt.runs.run",
    "TextGenerator": "minigpt.training.callbacks.text_generator",
    "TextModel": "minigpt.inference.text_model",
    "TranslationModel": "minigpt.inference.translation_model",
    "UserError": "minigpt.errors",
    "config_for_text": "minigpt.corpus.sizes",
    "evaluate_run": "minigpt.evaluation",
    "export_run": "minigpt.export",
    "import_run": "minigpt.huggingface.importing",
    "load": "minigpt.inference.loading",
    "load_config": "minigpt.config",
    "resume": "minigpt.training.pipeline",
    "train": "minigpt.training.pipeline",
}

__all__ = [
    "Config",
    "PairEvaluation",
    "Run",
    "TextGenerator",
    "TextModel",
    "TranslationModel",
    "UserError",
    "config_for_text",
    "evaluate_run",
    "export_run",
    "import_run",
    "load",
    "load_config",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'minigpt' has no attribute {name!r}")
    with hide_tensorflow_log():
        value = getattr(importlib.import_module(_HOMES[name]), name)
        if "tensorflow" in sys.modules:
            # Looks for GPUs, and complains on standard error where there are none.
            sys.modules["tensorflow"].config.list_physical_devices("GPU")
    return value


@wrapt.when_imported("keras")
def _register_layers(keras: Any) -> None:
    """`keras.models.load_model` knows our layers as soon as both packages are imported."""
    importlib.import_module("minigpt.models.gpt")
    importlib.import_module("minigpt.models.encoder_decoder")
