"""The export to Hugging Face folders, tested without transformers."""

import json

import numpy as np
import pytest

import minigpt
from minigpt.config import GPTConfig
from minigpt.models import GPT
from minigpt.targets.huggingface.folders import import_run
from minigpt.targets.huggingface.tokenizer_export import tokenizer_files
from minigpt.targets.targets import target_named
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.conftest import tiny_text
from tests.mixed_lines import code, scraps
from tests.settings import tokenizer_config
from tests.targets.huggingface.folders import write_model

# Of 40 entries, every character has a token; of 12, the others are bytes.
KINDS = [("byte_pair", 320), ("character", 40), ("character", 12), ("word", 30)]


def learned(kind: str, vocab_size: int, lowercase: bool = False) -> Tokenizer:
    config = tokenizer_config(kind=kind, vocab_size=vocab_size, lowercase=lowercase)
    return learn_tokenizer([tiny_text(100)], config)


def random_gpt(vocab_size: int, **changes) -> GPT:
    sizes = {"max_len": 16, "embed_dim": 8, "num_heads": 2, "num_layers": 2}
    model = GPT(GPTConfig(**{"block": "pre_norm", **sizes, **changes}), vocab_size)
    draw = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(variable + draw.normal(size=variable.shape, scale=0.3))
    return model


PLAIN = {"qkv_bias": False, "activation": "relu", "ff_dim": 10}
MODERN = {
    **{"block": "modern", "num_heads": 4, "num_kv_heads": 2, "head_dim": 6},
    **{"activation": "relu_squared", "rotary_base": 500.0, "tie_embeddings": False},
}


@pytest.mark.parametrize(
    ("kind", "vocab_size", "changes"), [*((*kind, PLAIN) for kind in KINDS), (*KINDS[0], MODERN)]
)
def test_export_and_import_restore_model_and_tokenizer(kind, vocab_size, changes, tmp_path):
    tokenizer = learned(kind, vocab_size)
    model = random_gpt(tokenizer.vocab_size, **changes)
    write_model(model, tokenizer, tmp_path / "folder")
    opened = minigpt.load(import_run(tmp_path / "folder", tmp_path / "run"))
    assert opened.tokenizer.fingerprint() == tokenizer.fingerprint()
    ids = np.array([[3, 5, 7, 11]], "int32")
    np.testing.assert_array_equal(opened.logits(ids), model(ids))


@pytest.mark.parametrize(("kind", "vocab_size"), KINDS)
def test_generation_config_names_what_is_never_sampled(kind, vocab_size, tmp_path):
    tokenizer = learned(kind, vocab_size)
    write_model(random_gpt(tokenizer.vocab_size), tokenizer, tmp_path / "folder")
    settings = json.loads((tmp_path / "folder" / "generation_config.json").read_text())
    named = json.loads((tmp_path / "folder" / "tokenizer.json").read_text())["added_tokens"]
    ids = {token["content"]: token["id"] for token in named}
    end = ids["<end>"]
    assert (settings.pop("bos_token_id"), settings.pop("eos_token_id")) == (end, end)
    assert settings.pop("pad_token_id") == ids.get("[PAD]", end)
    # Tokens without text, and bytes that the text does not need.
    never = set(ids.values()) - {end}
    if isinstance(tokenizer, CharacterTokenizer):
        never |= set(tokenizer.byte_ids) - set(tokenizer.encode(tiny_text(100)).tolist())
    assert settings == {"suppress_tokens": sorted(never)}


GPT2_CHANGES = {
    "block": "post_norm",
    "head_bias": True,
    "head_dim": 3,
    "position": "sinusoidal",
    "scale_embeddings": True,
    "value_dim": 5,
}
QWEN3_CHANGES = {
    "convolution": 4,
    "ngrams": [2],
    "position": "learned",
    "qkv_bias": True,
    "scale_embeddings": True,
    "value_dim": 5,
    "value_residual": True,
}


@pytest.mark.parametrize(
    ("base", "changes"),
    [({"tie_embeddings": False}, GPT2_CHANGES), (MODERN | {"ngram_rows": 100}, QWEN3_CHANGES)],
)
def test_another_model_is_refused_with_all_differences(base, changes):
    tokenizer = learned("character", 40)
    model = random_gpt(tokenizer.vocab_size, **base | changes)
    problem = target_named("huggingface").problem(model.config, tokenizer)
    lines = problem.split("; ")
    if changes == QWEN3_CHANGES:
        # The setting that leaves out the parts that Qwen3 lacks.
        assert "model.standard_parts" in lines.pop()
    assert len(lines) == len(changes)
    for name, line in zip(changes, lines, strict=True):
        assert line.startswith(f"model.{name} = ")


def test_a_model_with_standard_parts_has_a_form():
    tokenizer = learned("character", 40)
    additions = {"convolution": 4, "ngrams": [2], "value_residual": True, "standard_parts": True}
    standard = random_gpt(tokenizer.vocab_size, **MODERN, **additions)
    assert target_named("huggingface").problem(standard.config, tokenizer) is None


def test_a_tokenizer_that_cannot_be_expressed_is_refused_with_the_reason():
    tokenizer = learned("character", 40, lowercase=True)
    config = random_gpt(tokenizer.vocab_size).config
    problem = target_named("huggingface").problem(config, tokenizer)
    assert "tokenizer.lowercase = true" in problem


@pytest.mark.parametrize(("kind", "vocab_size"), [*KINDS, ("byte_pair", 700)])
def test_the_tokenizers_package_gives_the_same_ids_and_text(kind, vocab_size):
    tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")
    tokenizer = learned(kind, vocab_size)
    if vocab_size == 700:
        config = tokenizer_config(kind=kind, vocab_size=vocab_size)
        tokenizer = learn_tokenizer(code(300, 20), config)
    described = tokenizer_files(tokenizer, 8)["tokenizer.json"]
    theirs = tokenizers.Tokenizer.from_str(described)
    theirs.encode_special_tokens = True
    lines = [*code(200, 21), *scraps(200, 22), "☃ż\0\u2581\U0001f600 <0x41><end>[PAD]", "", " "]
    for line in lines:
        ids = tokenizer.encode(line).tolist()
        assert theirs.encode(line).ids == ids, line
        assert theirs.decode(ids) == tokenizer.decode(ids)
