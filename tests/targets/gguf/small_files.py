"""Small valid portable files of every kind, a few KB each, for tests that change them."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.config import Config, EncoderDecoderConfig, GPTConfig
from minigpt.models import build_model
from minigpt.targets.gguf.writing import write_portable
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.gpt2 import AddedToken, GPT2Tokenizer, byte_alphabet
from minigpt.tokenizers.word import WordTokenizer
from tests.targets.gguf.gguf_parts import File, key_record, parsed

# What the tests encode.
TEXT = "The end: ΣαΣ ▁ \x10 😀 it's\r\n  A\u0301 12! <a> <ab>" + 60 * "a"


def gpt2_tokenizer() -> GPT2Tokenizer:
    encoder = {character: byte for character, byte in byte_alphabet().items()}
    merges = [("h", "e"), ("T", "he"), ("i", "t"), ("1", "2"), ("'", "s")]
    encoder |= {first + second: 256 + i for i, (first, second) in enumerate(merges)}
    added = [
        AddedToken(261, "<end>", special=True),
        AddedToken(262, "<a>", normalized=True),
        AddedToken(263, "<ab>"),
    ]
    special = {token.content: token.id for token in added}
    # One id more than tokens.
    return GPT2Tokenizer(encoder, merges, special, end_id=261, size=265, added=added)


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "byte_pair": lambda: BytePairTokenizer.learn([f"{TEXT} The end's end. " * 3], 275, False),
    "character": lambda: CharacterTokenizer.learn([TEXT], 20, False),
    "word": lambda: WordTokenizer.learn([TEXT], 12, True),
    "word_with_start": lambda: WordTokenizer.learn([TEXT], 12, True).with_start(),
    "gpt2": gpt2_tokenizer,
}
MODERN = {"block": "modern", "num_heads": 4, "num_kv_heads": 2, "head_dim": 6}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("byte_pair", "float32", {"block": "pre_norm", "embed_dim": 4}),
    "modern": ("character", "float32", {**MODERN, "tie_embeddings": False}),
    "bytes": ("character", "float32", {**MODERN, "embed_dim": 4, "activation": "relu_squared"}),
    "post_norm": (
        *("word", "float32"),
        {"block": "post_norm", "position": "sinusoidal", "activation": "gelu", "value_dim": 5},
    ),
    "float16": ("word", "float16", {"block": "pre_norm", "position": "rotary"}),
    "int8": ("gpt2", "int8", {"block": "pre_norm", "embed_dim": 32, "ff_dim": 32}),
    "pair": ("word_with_start", "float32", {"kind": "encoder_decoder", "scale_embeddings": True}),
    "modern_pair": ("word", "float16", {"kind": "encoder_decoder", "block": "modern"}),
}


def built(tokenizer: Tokenizer, weights_type: Any, sizes: dict[str, Any], path: Path) -> bytes:
    sizes = {"max_len": 8, "embed_dim": 8, "num_heads": 2, "num_layers": 1, **sizes}
    section = EncoderDecoderConfig if "kind" in sizes else GPTConfig
    model = section(**sizes)
    weights = build_model(model, tokenizer.vocab_size).weights
    draw = np.random.default_rng(0)
    values = [draw.normal(0, 0.5, weight.shape) for weight in weights]
    # Without a check: the default source of data does not suit an encoder-decoder.
    config = Config.model_construct(**{**dict(Config()), "model": model})
    write_portable(path, config, tokenizer, values, weights_type=weights_type)
    return path.read_bytes()


def small_files(folder: Path) -> dict[str, File]:
    """Returns the parts of a file for each entry of MODELS."""
    files = {}
    for name, (kind, weights_type, sizes) in MODELS.items():
        data = built(KINDS[kind](), weights_type, sizes, folder / f"{name}.gguf")
        files[name] = parsed(data)
        assert files[name].data() == data
        # A checksum would refuse every change before the engine reads it.
        files[name].keys = [key for key in files[name].keys if key.name != b"minigpt.crc32"]
        files[name].keys.append(key_record(b"general.alignment", struct.pack("<II", 4, 32)))
    return files
