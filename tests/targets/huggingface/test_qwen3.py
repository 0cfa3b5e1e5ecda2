"""Folders of Qwen3's shape: import, parity with transformers, export, and what is refused."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops
from safetensors.numpy import load_file

import minigpt
from minigpt.errors import UserError
from minigpt.models.layers import attention
from minigpt.models.layers.positions import RotaryPositions
from minigpt.targets.huggingface.folders import import_run
from minigpt.targets.targets import target_named
from tests.conftest import tiny_text
from tests.targets.huggingface.folders import (
    PARITY,
    QWEN3_NAMES,
    difference,
    expected,
    fixture,
    huggingface_folder,
    write_model,
)
from tests.targets.huggingface.test_export import KINDS, learned, random_gpt
from tests.targets.huggingface.test_import import refused

MODERN = {"block": "modern", "num_heads": 4, "num_kv_heads": 2, "head_dim": 6}


@pytest.fixture(params=QWEN3_NAMES)
def name(request) -> str:
    return request.param


def config_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def stored(folder: Path) -> dict[str, np.ndarray]:
    return {k: v for path in folder.glob("model*.safetensors") for k, v in load_file(path).items()}


def error(folder: Path, run: Path, name: str) -> float:
    """Returns the largest difference from the logits of transformers."""
    right = expected(name)
    found = minigpt.load(import_run(folder, run)).logits(right["ids"])
    return difference(found, right["logits"])


def test_computes_the_same_logits_as_transformers(name, tmp_path):
    right = expected(name)
    assert right["logits"].std() >= 1
    gains = [v for key, v in stored(fixture(name)).items() if "norm" in key]
    assert gains and all(0.05 < np.abs(gain - 1).max() < 0.5 for gain in gains)
    folder = huggingface_folder(name, tmp_path / "folder")
    assert error(folder, tmp_path / "run", name) < PARITY
    (sample,) = minigpt.load(tmp_path / "run").samples(right["prompt"], 50, top_k=1)
    assert sample.tokens == right["greedy"].tolist()


def neighbors_rotated(self, x, positions, base):
    """The other pairing of rotary positions: entries 2i and 2i + 1."""
    half = x.shape[-1] // 2
    angles = ops.cast(positions, "float32")[:, None, :, None] * base ** (-np.arange(half) / half)
    even, odd, cos, sin = x[..., ::2], x[..., 1::2], ops.cos(angles), ops.sin(angles)
    pairs = ops.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1)
    return ops.reshape(pairs, ops.shape(x))


@pytest.mark.parametrize(
    "mutant",
    [
        (RotaryPositions, "rotate", neighbors_rotated),
        (RotaryPositions, "rotate", lambda self, x, positions, base: x),
        (attention, "normalized", lambda x, norm: x),
    ],
    ids=["pairs of neighbors", "no positions", "no norms"],
)
def test_parity_would_see_another_attention(mutant, tmp_path, monkeypatch):
    monkeypatch.setattr(*mutant)
    folder = huggingface_folder("qwen3/grouped", tmp_path / "folder")
    assert error(folder, tmp_path / "run", "qwen3/grouped") > 10 * PARITY


@pytest.mark.parametrize(
    "change",
    [
        {"rms_norm_eps": 1e-2},
        {"hidden_act": "relu"},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    ],
)
def test_parity_would_see_another_setting(change, tmp_path):
    folder = huggingface_folder("qwen3/grouped", tmp_path / "folder", **change)
    assert error(folder, tmp_path / "run", "qwen3/grouped") > 2 * PARITY


def test_reads_the_rotary_settings_of_transformers_4(tmp_path):
    """`rope_theta` in place of `rope_parameters`, as in the published files."""
    for scaling in (None, {"rope_type": "default"}, {"type": "default"}):
        folder = huggingface_folder("qwen3/sharded", tmp_path / f"{scaling}" / "folder")
        config = config_of(folder) | {"rope_theta": 1_000_000, "rope_scaling": scaling}
        del config["rope_parameters"]
        (folder / "config.json").write_text(json.dumps(config))
        assert error(folder, folder.parent / "run", "qwen3/sharded") < PARITY


def test_import_and_export_restore_the_folder(name, tmp_path):
    """The same tensors with the same names, and the same settings."""
    folder = huggingface_folder(name, tmp_path / "folder")
    run = import_run(folder, tmp_path / "run")
    minigpt.export_run(run, "huggingface", tmp_path / "again")
    before, after = stored(folder), stored(tmp_path / "again")
    assert after.keys() == before.keys()
    for key, value in before.items():
        np.testing.assert_array_equal(after[key], value, err_msg=key)
    theirs, ours = config_of(folder), config_of(tmp_path / "again")
    assert ours.pop("rope_theta") == theirs["rope_parameters"]["rope_theta"]
    assert ours.pop("rope_scaling") is None
    assert ours == {key: theirs[key] for key in ours}
    assert error(tmp_path / "again", tmp_path / "run again", name) < PARITY


@pytest.mark.parametrize(("kind", "vocab_size"), KINDS)
def test_export_and_import_restore_model_and_tokenizer(kind, vocab_size, tmp_path):
    tokenizer = learned(kind, vocab_size)
    model = random_gpt(
        tokenizer.vocab_size,
        **MODERN,
        activation="relu_squared",
        rotary_base=500.0,
        dropout_rate=0.1,
        tie_embeddings=False,
    )
    write_model(model, tokenizer, tmp_path / "folder")
    opened = minigpt.load(import_run(tmp_path / "folder", tmp_path / "run"))
    assert opened.tokenizer.fingerprint() == tokenizer.fingerprint()
    ids = np.array([[3, 5, 7, 11]], "int32")
    np.testing.assert_array_equal(opened.logits(ids), model(ids))


def test_an_imported_run_is_a_run(tmp_path):
    folder = huggingface_folder("qwen3/grouped", tmp_path / "folder")
    run = import_run(folder, tmp_path / "run")
    text = tmp_path / "text.txt"
    text.write_text(tiny_text(30))
    assert minigpt.evaluate_run(run, [str(text)]).bits_per_byte is not None
    file = tmp_path / "qwen3.keras"
    minigpt.export_run(run, "keras", file)
    ids = np.array([[3, 5, 7, 11]], "int32")
    opened = keras.models.load_model(file)
    np.testing.assert_array_equal(opened(ids), minigpt.load(run).logits(ids))
    config = run.config.model
    assert (config.block, config.position, config.qkv_bias) == ("modern", "rotary", False)
    assert (config.num_kv_heads, config.rotary_base, config.tie_embeddings) == (2, 1e4, True)


def test_refuses_other_architectures_and_variants(tmp_path):
    changes = {
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3ForSequenceClassification"],
        "attention_bias": True,
        "use_sliding_window": True,
        "layer_types": ["full_attention", "sliding_attention"],
        "hidden_act": "tanh",
        "num_key_value_heads": 3,
        "head_dim": 5,
        "hidden_size": "wide",
        "rms_norm_eps": 0,
        "attention_dropout": 1.5,
        "tie_word_embeddings": "yes",
        "max_position_embeddings": 0,
        "partial_rotary_factor": 0.5,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
        "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0},
    }
    for number, (key, value) in enumerate(changes.items()):
        folder = huggingface_folder(
            "qwen3/grouped", tmp_path / str(number) / "folder", **{key: value}
        )
        (line,) = refused(folder)
        assert f"config.json: {key}" in line and " = " in line and "should" in line
    assert "model_type = 'x': should be 'gpt2' or 'qwen3'" in problems(tmp_path, model_type="x")[0]
    rope = {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}
    assert "should be one table" in problems(tmp_path, rope_parameters=rope)[0]
    rope = {"rope_type": "default", "rope_theta": 0}
    assert "rope_parameters.rope_theta = 0: should" in problems(tmp_path, rope_parameters=rope)[0]
    for huge in (2**1024, float("inf")):
        for changes in ({"rms_norm_eps": huge}, {"rope_parameters": {"rope_theta": huge}}):
            (line,) = problems(tmp_path, **changes)
            assert line.endswith(f" = {huge}: should be a finite number greater than 0")
    both = {"attention_bias": True, "rope_scaling": {"type": "dynamic", "factor": 2.0}}
    assert len(problems(tmp_path, **both)) == 2
    # Limits of minigpt.
    (line,) = problems(tmp_path, num_hidden_layers=300)
    assert "config.json: model.num_layers = 300: should be less than or equal to 256" in line


def problems(folder: Path, **changes) -> list[str]:
    number = len(list(folder.iterdir()))
    return refused(
        huggingface_folder("qwen3/grouped", folder / f"more{number}" / "folder", **changes)
    )


def test_refuses_tensors_that_do_not_fit(tmp_path):
    lines = problems(tmp_path, num_key_value_heads=4, hidden_size=8)
    assert len(lines) == 4
    assert "layers.0.self_attn.k_proj.weight: has the shape [12, 8]; should be [24, 8]" in lines[0]
    (line, _) = problems(tmp_path, num_hidden_layers=1)[:2]
    assert "is not a tensor of this Qwen3" in line
    (line,) = problems(tmp_path, tie_word_embeddings=False)
    assert "lm_head.weight: is missing; expected a tensor of shape [400, 8]" in line


def test_the_class_of_the_tokenizer(tmp_path):
    """vocab.json and merges.txt of GPT-2 and of Qwen3 look alike; the class decides how text is split."""
    folder = huggingface_folder("qwen3/grouped", tmp_path / "folder")
    settings = folder / "tokenizer_config.json"
    expected = {"GPT2Tokenizer": "gpt2", "Qwen2TokenizerFast": "qwen2", None: "qwen2"}
    for named, splitting in expected.items():
        settings.write_text(json.dumps({} if named is None else {"tokenizer_class": named}))
        tokenizer = import_run(folder, tmp_path / f"{named}").load_tokenizer()
        assert tokenizer.splitting == splitting
        assert tokenizer.encode("don't 12").tolist() != tokenizer.encode("don'T 12").tolist()
    settings.write_text(json.dumps({"tokenizer_class": "LlamaTokenizer"}))
    problems = import_problems(folder, tmp_path / "refused")
    assert problems == [
        f"{settings}: tokenizer_class = 'LlamaTokenizer': should be GPT2Tokenizer or Qwen2Tokenizer"
    ]
    split = {"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]}
    described = {"model": {"type": "BPE"}, "normalizer": None, "pre_tokenizer": split}
    (folder / "tokenizer.json").write_text(json.dumps(described))
    (line,) = import_problems(folder, tmp_path / "refused")
    assert "tokenizer.json: pre_tokenizer.pretokenizers.0.pattern.Regex = null: should be" in line
    assert line.endswith("as in Qwen3")


def import_problems(folder: Path, run: Path) -> list[str]:
    with pytest.raises(UserError) as caught:
        import_run(folder, run)
    assert not run.exists()
    return list(caught.value.problems)


def test_another_model_is_refused_with_all_differences():
    tokenizer = learned("character", 40)
    changes = {"position": "learned", "qkv_bias": True, "scale_embeddings": True, "value_dim": 5}
    model = random_gpt(tokenizer.vocab_size, **MODERN, **changes)
    problem = target_named("huggingface").problem(model.config, tokenizer)
    assert problem.split("; ") == [
        "model.position = 'learned': Qwen3 has 'rotary'",
        "model.qkv_bias = True: Qwen3 has False",
        "model.scale_embeddings = True: Qwen3 has False",
        "model.value_dim = 5: Qwen3 has 6",
    ]


def test_parts_that_qwen3_lacks_are_refused_with_the_setting_that_leaves_them_out():
    tokenizer = learned("character", 40)
    additions = {"convolution": 4, "ngrams": [2], "ngram_rows": 100, "value_residual": True}
    model = random_gpt(tokenizer.vocab_size, **MODERN, **additions)
    target = target_named("huggingface")
    assert target.problem(model.config, tokenizer).split("; ") == [
        "model.convolution = 4: Qwen3 has 0",
        "model.ngrams = [2]: Qwen3 has []",
        "model.value_residual = True: Qwen3 has False",
        "train with model.standard_parts = true",
    ]
    standard = random_gpt(tokenizer.vocab_size, **MODERN, **additions, standard_parts=True)
    assert target.problem(standard.config, tokenizer) is None
