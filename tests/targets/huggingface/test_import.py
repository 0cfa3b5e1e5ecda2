"""`import_run`: folders written by transformers, its logits, and folders that are refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import minigpt
from minigpt.app import export_run
from minigpt.errors import UserError
from minigpt.targets.huggingface.folders import import_run
from tests.targets.huggingface.folders import (
    FIXTURES,
    NAMES,
    PARITY,
    QWEN3_NAMES,
    described_tokenizer,
    difference,
    expected,
    fixture,
    huggingface_folder,
)

pytestmark = pytest.mark.usefixtures("without_xla")


def config_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def stored(folder: Path) -> dict[str, np.ndarray]:
    return {k: v for path in folder.glob("model*.safetensors") for k, v in load_file(path).items()}


def error(folder: Path, run: Path, name: str) -> float:
    """Returns the largest difference from the logits of transformers."""
    right = expected(name)
    found = minigpt.load(import_run(folder, run)).logits(right["ids"])
    return difference(found, right["logits"])


@pytest.mark.parametrize("name", [*NAMES, *QWEN3_NAMES])
def test_computes_the_same_as_transformers_and_restores_the_folder(name, tmp_path):
    """The same logits and greedy text; exported, the same tensors with the same names, and settings."""
    right = expected(name)
    assert right["logits"].std() >= 1
    gains = [v for key, v in stored(fixture(name)).items() if "norm" in key or "ln_1.weight" in key]
    assert gains and all(0.05 < np.abs(gain - 1).max() < 0.5 for gain in gains)
    folder = huggingface_folder(name, tmp_path / "folder")
    assert error(folder, tmp_path / "run", name) < PARITY
    run = minigpt.Run(tmp_path / "run")
    if name in ("untied", "qwen3/grouped"):  # The loop takes longer than all else.
        (sample,) = minigpt.load(run).samples(right["prompt"], 50, top_k=1)
        assert sample.tokens == right["greedy"].tolist()

    export_run(run, "huggingface", tmp_path / "again")
    before, after = stored(folder), stored(tmp_path / "again")
    assert after.keys() == before.keys()
    for key, value in before.items():
        np.testing.assert_array_equal(after[key], value, err_msg=key)
    theirs, ours = config_of(folder), config_of(tmp_path / "again")
    if name in NAMES:
        theirs["n_inner"] = theirs["n_inner"] or 4 * theirs["n_embd"]
    else:
        assert ours.pop("rope_theta") == theirs["rope_parameters"]["rope_theta"]
        assert ours.pop("rope_scaling") is None
    assert ours == {key: theirs[key] for key in ours}
    vocabulary = json.loads((tmp_path / "again" / "vocab.json").read_text(encoding="utf-8"))
    assert vocabulary == json.loads((FIXTURES / "encoder.json").read_bytes())
    merges = (tmp_path / "again" / "merges.txt").read_text(encoding="utf-8")
    assert merges.splitlines() == (FIXTURES / "vocab.bpe").read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("narrow", {"layer_norm_epsilon": 1e-3}),
        ("narrow", {"activation_function": "gelu"}),
        ("qwen3/grouped", {"rms_norm_eps": 1e-2}),
        ("qwen3/grouped", {"hidden_act": "relu"}),
        ("qwen3/grouped", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    ],
    ids=str,
)
def test_another_setting_gives_other_logits(name, change, tmp_path):
    folder = huggingface_folder(name, tmp_path / "folder", **change)
    assert error(folder, tmp_path / "run", name) > 2 * PARITY


def test_settings_that_change_no_result_are_accepted(tmp_path):
    changes = {"embd_pdrop": 0.25, "reorder_and_upcast_attn": True, "summary_type": "mean"}
    folder = huggingface_folder("narrow", tmp_path / "folder", **changes)
    assert error(folder, tmp_path / "run", "narrow") < PARITY


@pytest.mark.parametrize("scaling", [None, {"rope_type": "default"}, {"type": "default"}])
def test_reads_the_rotary_settings_of_transformers_4(scaling, tmp_path):
    """`rope_theta` in place of `rope_parameters`, as in the published files."""
    folder = huggingface_folder("qwen3/sharded", tmp_path / "folder")
    config = config_of(folder) | {"rope_theta": 1_000_000, "rope_scaling": scaling}
    del config["rope_parameters"]
    (folder / "config.json").write_text(json.dumps(config))
    assert error(folder, tmp_path / "run", "qwen3/sharded") < PARITY


def change(folder: Path, **tensors) -> None:
    """Rewrites model.safetensors. A tensor that is None is removed."""
    renamed = {key.replace("__", "."): value for key, value in tensors.items()}
    kept = {**stored(folder), **renamed}
    save_file({k: v for k, v in kept.items() if v is not None}, folder / "model.safetensors")


def test_other_ways_to_store_the_same_model(tmp_path):
    """Without the prefix, with masks, with a head equal to the token table."""
    folder = huggingface_folder("narrow", tmp_path / "folder")
    plain = {key.removeprefix("transformer."): value for key, value in stored(folder).items()}
    mask = np.tril(np.ones((1, 1, 72, 72), bool))
    plain |= {"h.0.attn.bias": mask, "h.1.attn.masked_bias": np.array(-1e4, "float32")}
    save_file(plain, folder / "model.safetensors")
    assert error(folder, tmp_path / "run1", "narrow") < PARITY
    change(folder, lm_head__weight=plain["wte.weight"])
    assert error(folder, tmp_path / "run2", "narrow") < PARITY
    change(folder, lm_head__weight=plain["wte.weight"] + 1)
    with pytest.raises(UserError, match=r"lm_head\.weight: differs from wte\.weight"):
        import_run(folder, tmp_path / "run3")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_read_as_float32(dtype, tmp_path):
    folder = huggingface_folder("narrow", tmp_path / "folder")
    whole = stored(folder)
    # safetensors does not write bfloat16 from numpy: the test writes the file in the published format.
    header, data, place = {}, b"", 0
    for key, value in whole.items():
        raw = value.astype(dtype).tobytes()
        kind = {"float16": "F16", "bfloat16": "BF16"}[dtype]
        header[key] = {
            "dtype": kind,
            "shape": value.shape,
            "data_offsets": [place, place := place + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    model = minigpt.load(import_run(folder, tmp_path / "run")).model
    np.testing.assert_array_equal(
        model.blocks[1].expand.kernel,
        whole["transformer.h.1.mlp.c_fc.weight"].astype(dtype).astype("float32"),
    )


def test_the_tokenizer(tmp_path):
    folder, described = huggingface_folder("narrow", tmp_path / "folder"), described_tokenizer()
    tokenizer = import_run(folder, tmp_path / "run").load_tokenizer()
    for text, ids in json.loads((FIXTURES / "lines.json").read_text("utf-8")):
        assert tokenizer.encode(text).tolist() == ids
    # Older files have "a b" in place of pairs.
    described["model"]["merges"] = [" ".join(pair) for pair in described["model"]["merges"]]
    (folder / "tokenizer.json").write_text(json.dumps(described))
    again = import_run(folder, tmp_path / "again").load_tokenizer()
    assert again.fingerprint() == tokenizer.fingerprint()
    shutil.rmtree(tmp_path / "run")
    other_pattern = {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}"}, "behavior": "Isolated"}
    for part, value in (
        ("model", {"type": "Unigram"}),
        ("normalizer", {"type": "Lowercase"}),
        ("pre_tokenizer", {"type": "ByteLevel", "add_prefix_space": True}),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": [other_pattern]}),
        ("post_processor", {"type": "TemplateProcessing", "single": [{"SpecialToken": {}}]}),
    ):
        (folder / "tokenizer.json").write_text(json.dumps(described | {part: value}))
        (line,) = refused(folder)
        assert f"tokenizer.json: {part}" in line
    (folder / "tokenizer.json").write_text(json.dumps(described))
    (folder / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": True}))
    assert "tokenizer_config.json: add_prefix_space = " in refused(folder)[0]
    (folder / "tokenizer.json").unlink()
    assert "contains no tokenizer.json" in refused(folder)[0]


def refused(folder: Path) -> list[str]:
    """Returns the problems reported for a folder. No run is created."""
    before = sorted(folder.parent.iterdir())
    with pytest.raises(UserError) as caught:
        import_run(folder, folder.parent / "run")
    assert sorted(folder.parent.iterdir()) == before
    assert not any("\n" in line for line in caught.value.problems)
    return list(caught.value.problems)


CHANGES = {
    "narrow": {
        "model_type": "llama",
        "scale_attn_weights": False,
        "scale_attn_by_inverse_layer_idx": True,
        "add_cross_attention": True,
        "activation_function": "tanh",
        "n_head": 3,
        "n_embd": "wide",
        "layer_norm_epsilon": 0,
        "resid_pdrop": 1.5,
        "vocab_size": 0,
    },
    "qwen3/grouped": {
        "model_type": "qwen3_moe",
        "attention_bias": True,
        "use_sliding_window": True,
        "layer_types": ["full_attention", "sliding_attention"],
        "hidden_act": ["silu"],
        "num_key_value_heads": 3,
        "rms_norm_eps": 2**1024,
        "attention_dropout": True,
        "tie_word_embeddings": "yes",
        "max_position_embeddings": 0,
        "num_hidden_layers": 300,
        "partial_rotary_factor": 0.5,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}},
    },
}


@pytest.mark.parametrize("name", CHANGES)
def test_refuses_other_architectures_and_variants(name, tmp_path):
    for number, (key, value) in enumerate(CHANGES[name].items()):
        folder = huggingface_folder(name, tmp_path / str(number) / "folder", **{key: value})
        (line,) = refused(folder)
        assert f"config.json: {key}" in line and " = " in line
    odd = {"rope_theta": 0, "partial_rotary_factor": 0.5}
    changes = {"n_positions": 0, "n_layer": 0} if name == "narrow" else {"rope_parameters": odd}
    assert len(refused(huggingface_folder(name, tmp_path / "two" / "folder", **changes))) == 2


def test_refuses_missing_and_damaged_files(tmp_path):
    folder = huggingface_folder("sharded", tmp_path / "a" / "folder")
    shard = folder / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-100])
    assert refused(folder)[0].startswith(f"{shard}: ")
    shard.rename(tmp_path / "outside.safetensors")
    assert refused(folder)[0].startswith(f"{shard}: ")
    index = folder / "model.safetensors.index.json"
    for content in ({}, {"weight_map": {"a": "../../outside.safetensors"}}):
        index.write_text(json.dumps(content))
        assert refused(folder)[0].startswith(f"{index}: ")
    index.rename(folder / "pytorch_model.bin")
    (line,) = refused(folder)
    assert line.startswith(f"{folder / 'model.safetensors'}: ") and "save_pretrained" in line
    (folder / "config.json").write_text("{")
    assert "config.json: not valid JSON" in refused(folder)[0]
    shutil.rmtree(folder)
    assert "does not exist" in refused(folder)[0]


def test_refuses_tensors_that_are_missing_too_many_or_of_another_shape(tmp_path):
    folder = huggingface_folder("narrow", tmp_path / "a" / "folder")
    change(
        folder,
        transformer__h__1__ln_2__bias=None,
        transformer__h__2__ln_2__bias=np.zeros(8, "float32"),
        transformer__h__0__mlp__c_fc__weight=np.zeros((32, 8), "float32"),
    )
    by_name = {line.split(": ")[1]: line for line in refused(folder)}
    assert by_name.keys() == {"h.1.ln_2.bias", "h.2.ln_2.bias", "h.0.mlp.c_fc.weight"}
    assert "(32, 8); should be (8, 32)" in by_name["h.0.mlp.c_fc.weight"]
    # A config.json of another model: ten problems, not hundreds.
    assert len(refused(huggingface_folder("narrow", tmp_path / "b" / "folder", n_embd=16))) == 10


def test_refuses_a_vocabulary_that_does_not_fit(tmp_path):
    folder, described = (
        huggingface_folder("narrow", tmp_path / "a" / "folder"),
        described_tokenizer(),
    )
    described["model"]["merges"] = described["model"]["merges"][:50]
    (folder / "tokenizer.json").write_text(json.dumps(described))
    assert f"{folder / 'tokenizer.json'}: " in refused(folder)[0]
    folder = huggingface_folder("narrow", tmp_path / "b" / "folder", vocab_size=300)
    assert "399" in refused(folder)[0]
