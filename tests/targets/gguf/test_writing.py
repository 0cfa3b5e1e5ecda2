"""The portable file, read back with the library of the format."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import minigpt
from minigpt.config import load_config
from minigpt.errors import UserError
from minigpt.runs.layout import is_current
from minigpt.targets.gguf.run_file import write_run_file
from minigpt.targets.gguf.tokenizer_tables import llama_vocabulary
from minigpt.tokenizers.character import CharacterTokenizer
from tests.targets.gguf.models import GPT_SHAPES, build

ARCHITECTURES = {
    "keras": "minigpt",
    "gpt2": "gpt2",
    "gpt2_without_bias": "gpt2",
    "gpt2_untied": "gpt2",
    "annotated": "minigpt",
    "modern": "qwen3",
    "modern_tied": "minigpt",
    "additions": "minigpt",
    "additions_post_norm": "minigpt",
    "odd": "minigpt",
}


def contents(path: Path) -> dict[str, Any]:
    """Returns the values of all keys, but those of the library itself."""
    fields = gguf.GGUFReader(path).fields
    return {name: field.contents() for name, field in fields.items() if "GGUF." not in name}


def tensors(path: Path) -> dict[str, np.ndarray]:
    return {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        for tensor in gguf.GGUFReader(path).tensors
    }


@pytest.mark.parametrize("shape", GPT_SHAPES)
def test_keys(shape, tmp_path):
    built = build(GPT_SHAPES[shape])
    model, tokenizer = built.config.model.resolved(), built.tokenizer
    keys = contents(built.write(tmp_path / "model.gguf"))
    architecture = ARCHITECTURES[shape]
    assert keys["general.architecture"] == architecture
    assert keys["general.name"] == "a test"
    assert keys["minigpt.format"] == 1
    assert keys["minigpt.version"] == minigpt.__version__
    described = within(keys, "minigpt.model.")
    frequencies = described.pop("rotary_frequencies", None)
    assert described.pop("vocab_size") == tokenizer.vocab_size
    assert described.pop("norm_epsilon") == np.float32(model.norm_epsilon)
    assert described == {name: getattr(model, name) for name in described}
    assert {"kind", "block", "position", "activation", "tie_embeddings"} <= described.keys()
    if model.position == "rotary":
        expected = [10_000 ** (-2 * i / model.head_dim) for i in range(model.head_dim // 2)]
        np.testing.assert_allclose(frequencies, expected, rtol=1e-6)
    settings = json.loads(keys["minigpt.config"])
    assert settings["model"] == built.config.model.model_dump()
    assert "data" not in settings and "init_from" not in settings["training"]
    assert within(keys, "minigpt.tokenizer.").keys() == {
        *("kind", "lowercase", "end_id", "unknown_id", "undrawable_ids"),
        *("pieces", "piece_ends", "ranks", "byte_ids"),
    }
    assert bytes(keys["minigpt.tokenizer.pieces"]) == b"".join(tokenizer.pieces)
    assert keys["minigpt.tokenizer.end_id"] == tokenizer.end_id
    assert (f"{architecture}.block_count" in keys) == (architecture != "minigpt")
    assert ("tokenizer.ggml.tokens" in keys) == (architecture != "minigpt")
    if architecture != "minigpt":
        assert keys[f"{architecture}.context_length"] == 24
        assert keys[f"{architecture}.embedding_length"] == 32
        assert keys[f"{architecture}.feed_forward_length"] == model.ff_dim
        assert keys[f"{architecture}.attention.head_count"] == model.num_heads
        assert len(keys["tokenizer.ggml.tokens"]) == tokenizer.vocab_size


def within(keys: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {n.removeprefix(prefix): value for n, value in keys.items() if n.startswith(prefix)}


def test_licence_and_private_paths(tmp_path):
    """The licence is written; no path of the user is."""
    built = build(GPT_SHAPES["modern"])
    secret = "/home/someone/secret"
    data = {"source": "files", "paths": [f"{secret}.txt"], "license": "CC-BY-4.0"}
    urls = {name: f"file://{secret}" for name in ("encoder_url", "merges_url")}
    settings = {"data": data, "tokenizer": {"kind": "gpt2", **urls}}
    changed = load_config({**settings, "training": {"init_from": secret}})
    sections = ("data", "tokenizer", "training")
    config = built.config.model_copy(update={name: getattr(changed, name) for name in sections})
    path = built._replace(config=config).write(tmp_path / "model.gguf")
    assert contents(path)["general.license"] == "CC-BY-4.0"
    assert b"secret" not in path.read_bytes()


@pytest.mark.parametrize("shape", ["gpt2", "modern"])
def test_tensors(shape, tmp_path):
    """Every weight is in the file: as a row for each output, in parts of their own."""
    built = build(GPT_SHAPES[shape])
    found = tensors(built.write(tmp_path / "model.gguf"))
    block, model = built.model.blocks[0], built.config.model.resolved()
    np.testing.assert_array_equal(found["token_embd.weight"], built.weights[shape == "gpt2"])
    kernel = block.attention.qkv.kernel.numpy().T
    if shape == "gpt2":
        np.testing.assert_array_equal(found["blk.0.attn_qkv.weight"], kernel)
        np.testing.assert_array_equal(found["blk.0.attn_qkv.bias"], block.attention.qkv.bias)
        np.testing.assert_array_equal(found["position_embd.weight"], built.weights[0])
        np.testing.assert_array_equal(found["blk.0.ffn_up.bias"], block.expand.bias)
    else:
        np.testing.assert_array_equal(found["blk.0.attn_q.weight"], kernel[:64])
        np.testing.assert_array_equal(found["blk.0.attn_k.weight"], kernel[64:96])
        np.testing.assert_array_equal(found["blk.0.attn_v.weight"], kernel[96:])
        gate = block.expand.kernel.numpy().T
        np.testing.assert_array_equal(found["blk.0.ffn_gate.weight"], gate[: model.ff_dim])
        np.testing.assert_array_equal(found["blk.0.ffn_up.weight"], gate[model.ff_dim :])
        np.testing.assert_array_equal(
            found["blk.0.attn_k_norm.weight"], block.attention.key_norm.scale
        )
    parameters = built.model.count_params()
    assert sum(tensor.size for tensor in found.values()) == parameters


def test_kinds_of_weights(tmp_path):
    built = build({**GPT_SHAPES["gpt2"], "ff_dim": 48})
    types = {}
    for weights_type in ("float32", "float16", "int8"):
        path = built.write(tmp_path / f"{weights_type}.gguf", weights_type)
        types[weights_type] = {t.name: t.tensor_type.name for t in gguf.GGUFReader(path).tensors}
    assert set(types["float32"].values()) == {"F32"}
    assert types["float16"]["blk.0.ffn_up.weight"] == "F16"
    assert types["int8"]["blk.0.ffn_up.weight"] == "Q8_0"
    # Its rows are not a multiple of 32 long.
    assert types["int8"]["blk.0.ffn_down.weight"] == "F16"
    for weights_type in types:
        assert types[weights_type]["blk.0.ffn_up.bias"] == "F32"
        assert types[weights_type]["position_embd.weight"] == "F32"
    sizes = [(tmp_path / f"{name}.gguf").stat().st_size for name in types]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(("init_from", "kept"), [(None, 0.0), ("english", 1.0)])
def test_small_changes_of_rounded_weights(init_from, kept, tmp_path):
    """Int8 keeps, on average, what training changed in weights that were rounded before."""
    built = build(GPT_SHAPES["gpt2"])
    positions, table, *others = built.weights
    # The scale of each row is 1.
    rounded = np.random.default_rng(0).integers(-120, 120, table.shape).astype(np.float32)
    rounded[:, 0] = 127
    changed = rounded + 0.2 * (rounded < 127)
    built.model.set_weights([positions, changed, *others])
    config = built.config.with_training(init_from=init_from)
    path = built._replace(config=config).write(tmp_path / "model.gguf", "int8")
    found = next(t for t in gguf.GGUFReader(path).tensors if t.name == "token_embd.weight")
    difference = gguf.quants.dequantize(found.data, found.tensor_type) - rounded
    assert difference[:, 1:].mean() / 0.2 == pytest.approx(kept, abs=0.1)


def test_a_run_ends_with_its_file(tiny_run, opened_without_xla):
    """It has the weights of model.keras and the facts of the best epoch."""
    assert is_current(tiny_run.path)
    model = minigpt.load_portable(tiny_run.portable_file)
    ids = np.arange(16)[None]
    np.testing.assert_allclose(model.logits(ids), opened_without_xla.logits(ids), rtol=0, atol=1e-4)
    lines = map(json.loads, tiny_run.metrics_file.read_text().splitlines())
    best = min(lines, key=lambda line: line["val_loss"])
    assert model.training == {
        "step": best["step"],
        "epoch": best["epoch"],
        "val_loss": best["val_loss"],
        "val_bits_per_byte": best["val_bits_per_byte"],
        "text_fingerprint": tiny_run.corpus["fingerprint"],
    }
    assert model.config["sampling"]["prompts"] == ["Ana sat", ""]


def test_from_a_checkpoint_as_from_the_model(tiny_run, tmp_path):
    write_run_file(tiny_run, tmp_path / "a.gguf")
    weights = tiny_run.load_model().get_weights()
    write_run_file(tiny_run, tmp_path / "b.gguf", weights=weights)
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


def test_export(tiny_run, tmp_path):
    minigpt.export_run(tiny_run, "gguf", tmp_path / "new" / "a.gguf", weights="float16")
    types = {t.tensor_type.name for t in gguf.GGUFReader(tmp_path / "new" / "a.gguf").tensors}
    assert types == {"F16", "F32"}
    with pytest.raises(UserError, match="exists"):
        minigpt.export_run(tiny_run, "gguf", tmp_path / "new" / "a.gguf")


@pytest.mark.parametrize(("character", "expected"), [("b", True), ("\u2581", False), ("\0", False)])
def test_characters_of_llama(character, expected):
    """llama.cpp writes spaces as U+2581, and ends the text of a token at NUL."""
    tokenizer = CharacterTokenizer(sorted(["a", character]), b"", lowercase=False)
    assert (llama_vocabulary(tokenizer) is not None) == expected
