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
from minigpt.evaluation import evaluate_run
from minigpt.models.layers import attention
from minigpt.targets.huggingface.folders import import_run
from tests.conftest import tiny_text
from tests.targets.huggingface.folders import (
    FIXTURES,
    NAMES,
    PARITY,
    difference,
    expected,
    huggingface_folder,
)


@pytest.fixture(params=NAMES)
def name(request) -> str:
    return request.param


def test_computes_the_same_logits_as_transformers(name, tmp_path):
    right = expected(name)
    assert right["logits"].std() >= 1
    stored = [load_file(path) for path in (FIXTURES / name).glob("model*.safetensors")]
    gains = [v for file in stored for key, v in file.items() if ".ln_1.weight" in key]
    assert gains and all(0.05 < np.abs(gain - 1).max() < 0.5 for gain in gains)

    run = import_run(huggingface_folder(name, tmp_path / "folder"), tmp_path / "run")
    model = minigpt.load(run)
    assert difference(model.logits(right["ids"]), right["logits"]) < PARITY
    (sample,) = model.samples(right["prompt"], 50, top_k=1)
    assert sample.tokens == right["greedy"].tolist()


def test_parity_would_see_an_attention_without_scale(name, tmp_path, monkeypatch):
    attend = attention.attend

    def unscaled(query, *others):
        return attend(query * query.shape[-1] ** 0.5, *others)

    monkeypatch.setattr(attention, "attend", unscaled)
    run = import_run(huggingface_folder(name, tmp_path / "folder"), tmp_path / "run")
    right = expected(name)
    assert difference(minigpt.load(run).logits(right["ids"]), right["logits"]) > 10 * PARITY


@pytest.mark.parametrize("mutant", [{"layer_norm_epsilon": 1e-3}, {"activation_function": "gelu"}])
def test_parity_would_see_another_epsilon_or_gelu(name, mutant, tmp_path):
    run = import_run(huggingface_folder(name, tmp_path / "folder", **mutant), tmp_path / "run")
    right = expected(name)
    assert difference(minigpt.load(run).logits(right["ids"]), right["logits"]) > 2 * PARITY


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> minigpt.Run:
    folder = tmp_path_factory.mktemp("imported")
    return import_run(huggingface_folder("narrow", folder / "folder"), folder / "run")


def test_an_imported_run_is_a_run(imported, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(tiny_text(30))
    scored = evaluate_run(imported, [str(text)])
    assert scored.bytes == len(tiny_text(30).encode()) and scored.bits_per_byte is not None
    for format in ("saved_model", "keras", "huggingface"):
        export_run(imported, format, tmp_path / format)
    assert imported.config.model.norm_epsilon == 1e-5
    assert imported.config.tokenizer.vocab_size == 400
    with pytest.raises(UserError, match="was imported and has no held-out text"):
        evaluate_run(imported)
    with pytest.raises(UserError, match="already contains a run"):
        import_run(FIXTURES / "narrow", imported.path)


def stored(folder: Path) -> dict[str, np.ndarray]:
    return load_file(folder / "model.safetensors")


def change(folder: Path, **tensors) -> None:
    """Rewrites model.safetensors. A tensor that is None is removed."""
    renamed = {key.replace("__", "."): value for key, value in tensors.items()}
    kept = {**stored(folder), **renamed}
    save_file({k: v for k, v in kept.items() if v is not None}, folder / "model.safetensors")


def same_logits(folder: Path, run: Path) -> bool:
    right = expected("narrow")
    found = minigpt.load(import_run(folder, run)).logits(right["ids"])
    return difference(found, right["logits"]) < PARITY


def test_other_ways_to_store_the_same_model(tmp_path):
    """Without the prefix, with masks, with a head equal to the token table."""
    folder = huggingface_folder("narrow", tmp_path / "folder")
    plain = {key.removeprefix("transformer."): value for key, value in stored(folder).items()}
    mask = np.tril(np.ones((1, 1, 72, 72), bool))
    plain |= {"h.0.attn.bias": mask, "h.1.attn.masked_bias": np.array(-1e4, "float32")}
    save_file(plain, folder / "model.safetensors")
    assert same_logits(folder, tmp_path / "run1")
    change(folder, lm_head__weight=plain["wte.weight"])
    assert same_logits(folder, tmp_path / "run2")
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


def test_the_tokenizer_from_tokenizer_json(tmp_path):
    folder = huggingface_folder("narrow", tmp_path / "folder")
    encoder = json.loads((folder / "vocab.json").read_text())
    merges = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    with pytest.raises(UserError, match="contains no tokenizer; expected tokenizer"):
        import_run(folder, tmp_path / "run")
    described = {
        "added_tokens": [{"id": 399, "content": "<|endoftext|>", "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "model": {"type": "BPE", "vocab": encoder, "merges": merges},
    }
    (folder / "tokenizer.json").write_text(json.dumps(described))
    tokenizer = import_run(folder, tmp_path / "run").load_tokenizer()
    for text, ids in json.loads((FIXTURES / "lines.json").read_text("utf-8")):
        assert tokenizer.encode(text).tolist() == ids
    # Newer files have pairs in place of "a b".
    described["model"]["merges"] = [pair.split(" ") for pair in merges]
    (folder / "tokenizer.json").write_text(json.dumps(described))
    again = import_run(folder, tmp_path / "again").load_tokenizer()
    assert again.fingerprint() == tokenizer.fingerprint()
    for part, value in (
        ("model", {"type": "Unigram"}),
        ("normalizer", {"type": "NFC"}),
        ("pre_tokenizer", {"type": "ByteLevel", "add_prefix_space": True}),
        ("pre_tokenizer", {"type": "Metaspace"}),
    ):
        (folder / "tokenizer.json").write_text(json.dumps(described | {part: value}))
        with pytest.raises(UserError, match="as in GPT-2") as caught:
            import_run(folder, tmp_path / "other")
        assert len(caught.value.problems) == 1


def refused(folder: Path) -> list[str]:
    """Returns the problems reported for a folder. No run is created."""
    before = sorted(folder.parent.iterdir())
    with pytest.raises(UserError) as caught:
        import_run(folder, folder.parent / "run")
    assert sorted(folder.parent.iterdir()) == before
    assert not any("\n" in line for line in caught.value.problems)
    return list(caught.value.problems)


def test_refuses_other_architectures_and_variants(tmp_path):
    changes = {
        "model_type": "llama",
        "architectures": ["GPT2ForSequenceClassification"],
        "scale_attn_weights": False,
        "scale_attn_by_inverse_layer_idx": True,
        "add_cross_attention": True,
        "activation_function": "tanh",
        "n_head": 3,
        "n_embd": "wide",
        "layer_norm_epsilon": 0,
        "resid_pdrop": 1.5,
    }
    for number, (key, value) in enumerate(changes.items()):
        folder = huggingface_folder("narrow", tmp_path / str(number) / "folder", **{key: value})
        (line,) = refused(folder)
        assert f"config.json: {key} = " in line and "should" in line
    folder = huggingface_folder("narrow", tmp_path / "two" / "folder", n_head=3, n_layer=0)
    assert len(refused(folder)) == 2


def test_settings_that_change_no_result_are_accepted(tmp_path):
    changes = {"embd_pdrop": 0.25, "reorder_and_upcast_attn": True, "summary_type": "mean"}
    run = import_run(huggingface_folder("narrow", tmp_path / "folder", **changes), tmp_path / "run")
    right = expected("narrow")
    assert difference(minigpt.load(run).logits(right["ids"]), right["logits"]) < PARITY


def test_refuses_missing_and_damaged_files(tmp_path):
    folder = huggingface_folder("sharded", tmp_path / "a" / "folder")
    shard = folder / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-100])
    (line,) = refused(folder)
    assert line.startswith(f"{shard}: truncated")
    shard.unlink()
    (line,) = refused(folder)
    assert line.startswith(f"{shard}: does not exist") and "index.json names it" in line
    (folder / "model.safetensors.index.json").write_text("{}")
    assert "damaged" in refused(folder)[0]
    (folder / "model.safetensors.index.json").unlink()
    assert "contains no weights; expected model.safetensors" in refused(folder)[0]
    (folder / "config.json").write_text("{")
    assert "config.json: not valid JSON" in refused(folder)[0]
    shutil.rmtree(folder)
    assert (
        "does not exist; expected a Hugging Face folder of a GPT-2 or a Qwen3" in refused(folder)[0]
    )


def test_refuses_tensors_that_are_missing_too_many_or_of_another_shape(tmp_path):
    folder = huggingface_folder("narrow", tmp_path / "a" / "folder")
    change(
        folder,
        transformer__h__1__ln_2__bias=None,
        transformer__h__2__ln_2__bias=np.zeros(8, "float32"),
        transformer__h__0__mlp__c_fc__weight=np.zeros((32, 8), "float32"),
    )
    by_name = {line.split(": ")[1]: line for line in refused(folder)}
    assert len(by_name) == 3
    assert "is missing; expected a tensor of shape [8]" in by_name["h.1.ln_2.bias"]
    assert "is not a tensor of this GPT-2" in by_name["h.2.ln_2.bias"]
    line = by_name["h.0.mlp.c_fc.weight"]
    assert "has the shape [32, 8]; should be [8, 32]" in line
    # A config.json of another model: ten problems, not hundreds.
    lines = refused(huggingface_folder("narrow", tmp_path / "b" / "folder", n_embd=16))
    assert len(lines) == 11 and "more tensors" in lines[-1]


def test_refuses_a_vocabulary_that_does_not_fit(tmp_path):
    folder = huggingface_folder("narrow", tmp_path / "a" / "folder")
    merges = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    (folder / "merges.txt").write_text("\n".join(merges[:50]), encoding="utf-8")
    (line,) = refused(folder)
    assert f"{folder / 'vocab.json'}: " in line and "do not match" in line
    folder = huggingface_folder("narrow", tmp_path / "b" / "folder", vocab_size=300)
    assert "has the id 399; should be below the vocabulary size, 300" in refused(folder)[0]
