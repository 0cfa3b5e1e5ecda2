"""Models with random weights, as Keras models and as portable files."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigpt.config import Config, load_config
from minigpt.models import build_model
from minigpt.targets.gguf.writing import write_portable
from minigpt.targets.targets import WeightsType
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.conftest import tiny_text

# One shape for each variant of a block; together they have all positions and activations.
GPT_SHAPES: dict[str, dict[str, Any]] = {
    "keras": {"block": "post_norm", "tie_embeddings": False, "activation": "relu"},
    "gpt2": {"block": "pre_norm"},
    "gpt2_without_bias": {"block": "pre_norm", "qkv_bias": False},
    "gpt2_untied": {"block": "pre_norm", "tie_embeddings": False, "head_bias": False},
    "annotated": {
        "block": "pre_norm",
        "position": "sinusoidal",
        "activation": "gelu",
        "scale_embeddings": True,
        "value_dim": 12,
        "tie_embeddings": False,
    },
    "modern": {"block": "modern", "num_heads": 4, "num_kv_heads": 2, "head_dim": 16},
    "modern_tied": {
        "block": "modern",
        "tie_embeddings": True,
        "activation": "relu_squared",
        "value_dim": 6,
    },
    "additions": {
        "block": "modern",
        "num_kv_heads": 1,
        "num_layers": 3,
        "value_residual": True,
        "convolution": 4,
        "ngrams": [2, 4],
        "ngram_rows": 100,
    },
    "additions_post_norm": {
        "block": "post_norm",
        "num_layers": 3,
        "value_residual": True,
        "convolution": 2,
        "ngrams": [3],
    },
    # No width is a multiple of four.
    "odd": {
        "block": "pre_norm",
        "embed_dim": 18,
        "num_heads": 3,
        "num_kv_heads": 1,
        "position": "rotary",
        "ff_dim": 37,
    },
}
PAIR_SHAPES: dict[str, dict[str, Any]] = {
    "paper": {"block": "post_norm"},
    "pre_norm": {"block": "pre_norm", "tie_embeddings": False, "position": "learned"},
    "modern": {"block": "modern", "num_kv_heads": 1},
}
TOKENIZERS: dict[str, dict[str, Any]] = {
    "byte_pair": {"kind": "byte_pair", "vocab_size": 320},
    "character": {"kind": "character", "vocab_size": 40},
    "word": {"kind": "word", "vocab_size": 40, "lowercase": True},
    "gpt2": {"kind": "gpt2"},
}
GPT2_FILES = Path(__file__).parents[2] / "fixtures" / "gpt2"


class Built(NamedTuple):
    model: Any
    tokenizer: Tokenizer
    config: Config

    @property
    def weights(self) -> list[np.ndarray]:
        return self.model.get_weights()

    def write(self, path: Path, weights_type: WeightsType = "float32") -> Path:
        arguments = self.config, self.tokenizer, self.weights
        write_portable(path, *arguments, name="a test", weights_type=weights_type)
        return path


def build(
    shape: dict[str, Any],
    tokenizer: str = "byte_pair",
    max_len: int = 24,
    spread: float = 0.2,
    chat: bool = False,
) -> Built:
    """Builds a model of a shape with random weights, in which biases and gains matter too.

    `chat`: whether it is one of dialogues.
    """
    kind = TOKENIZERS[tokenizer]
    sizes = {"embed_dim": 32, "num_heads": 2, "num_layers": 2, "max_len": max_len}

    settings = {"model": {**sizes, **shape}, "tokenizer": kind}
    if shape.get("kind") == "encoder_decoder":
        settings["data"] = {"source": "pairs", "paths": ["pairs.tsv"]}
    if chat:
        settings["data"] = {"source": "dialogues", "paths": ["dialogues.jsonl"]}
    config = load_config(settings)
    learned = _tokenizer(tokenizer, config)
    if config.model.kind == "encoder_decoder":
        learned = learned.with_start()
    if chat:
        learned = learned.with_chat()
    model = build_model(config.model, learned.vocab_size)
    draw = np.random.default_rng(0)
    for weight in model.weights:
        center = 1.0 if weight.name in ("gamma", "scale") else 0.0
        weight.assign(draw.normal(center, spread, weight.shape))
    return Built(model, learned, config)


def gpt2_tokenizer(folder: Path = GPT2_FILES) -> GPT2Tokenizer:
    """Returns the tokenizer of a folder with GPT-2's files; by default, that of the fixtures."""
    files = (folder / "encoder.json", folder / "vocab.bpe")
    return GPT2Tokenizer.from_files(*(file.read_bytes() for file in files))


def _tokenizer(name: str, config: Config) -> Tokenizer:
    if name == "gpt2":
        return gpt2_tokenizer()
    return learn_tokenizer([tiny_text(60)], config.tokenizer)
