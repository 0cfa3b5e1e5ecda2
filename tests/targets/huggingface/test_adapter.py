"""Adapters: what LoRA has added to a model of the shape of GPT-2 or Qwen3, or of neither."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import minigpt
from minigpt.errors import UserError
from minigpt.targets.export import new_output
from minigpt.targets.huggingface.adapter import write_adapter
from minigpt.targets.huggingface.architectures import GPT2, Qwen3
from minigpt.targets.huggingface.folders import import_run
from tests.cli.running import called
from tests.conftest import nothing_compiled, nothing_exported
from tests.targets.huggingface.folders import huggingface_folder

pytestmark = pytest.mark.usefixtures("without_xla")
QUESTION = "Who has the ball?"
ROWS = [
    {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": text}]}
    for text in ("Ana.", "Ben has it.", "Nobody.")
]


def write_adapter_folder(run: minigpt.Run, folder) -> str | None:
    with new_output(folder, True) as unfinished:
        return write_adapter(run, unfinished)


def tuned(folder: Path, name: str) -> Path:
    """Writes a base, a run with LoRA on dialogues, its adapter, and both as folders."""
    base = import_run(huggingface_folder(name, folder / "folder"), folder / "base")
    file = folder / "dialogues.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in ROWS * 20))
    training = {
        "epochs": 1,
        "steps_per_epoch": 3,
        "batch_size": 2,
        "learning_rate": 0.05,
        "jit_compile": False,
    }
    settings = {
        "data": {"source": "dialogues", "paths": [str(file)], "val_fraction": 0.3},
        "training": {**training, "init_from": str(base.path), "lora_rank": 3},
        "sampling": {"max_new_tokens": 2},
    }
    with nothing_exported(), nothing_compiled():
        run = minigpt.train(settings, folder / "run")
    assert write_adapter_folder(run, folder / "adapter") is None
    minigpt.export_run(run, "huggingface", folder / "merged")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tuned(tmp_path_factory.mktemp("adapter"), "qwen3/grouped")


@pytest.fixture
def gpt2_folder(tmp_path):
    return tuned(tmp_path, "untied")


def tensors_of(folder) -> dict[str, np.ndarray]:
    return {k: v for path in folder.glob("*model*.safetensors") for k, v in load_file(path).items()}


@pytest.mark.parametrize("fixture", ["folder", "gpt2_folder"])
def test_base_and_adapter_are_the_merged_model(fixture, request):
    """By the formulas of peft: W + alpha / r B A, transposed for Conv1D; and new vectors of tokens."""
    folder = request.getfixturevalue(fixture)
    base, merged = tensors_of(folder / "folder"), tensors_of(folder / "merged")
    config = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert config["r"] == config["lora_alpha"] == 3
    assert config["fan_in_fan_out"] == any("c_attn" in name for name in base)
    changed, tokens = set(), None
    for name, tensor in tensors_of(folder / "adapter").items():
        name = name.removeprefix("base_model.model.")
        if name.endswith(".lora_B.weight"):
            stem = name.removesuffix(".lora_B.weight")
            factor = tensors_of(folder / "adapter")[f"base_model.model.{stem}.lora_A.weight"]
            added = (tensor @ factor).T if config["fan_in_fan_out"] else tensor @ factor
            right = base[f"{stem}.weight"] + added
            assert np.abs(added).max() > 1e-3
        elif name.endswith("trainable_tokens_delta"):
            stem = name.removesuffix(".token_adapter.trainable_tokens_delta")
            tokens = config["trainable_token_indices"][stem.split(".")[-1]]
            old = base[f"{stem}.weight"]
            right = np.concatenate([old, np.zeros((3, old.shape[1]), "float32")])
            # The end token is a target, and never an input.
            is_head = stem == "lm_head" or "lm_head.weight" not in base
            assert (np.abs(right[tokens[0]] - tensor[0]).max() > 1e-3) == is_head
            right[tokens] = tensor
        else:
            continue
        np.testing.assert_allclose(merged[f"{stem}.weight"], right, rtol=1e-5, atol=1e-6)
        changed.add(f"{stem}.weight")
    assert {n for n in base if not np.array_equal(base[n], merged[n])} == changed
    assert tokens[1:] == [400, 401, 402]


def test_an_adapter_is_loaded_and_taken_off(folder):
    model, run = minigpt.load(folder / "base"), minigpt.load(folder / "run")
    before = [np.array(weight) for weight in model.model.weights]
    ids = np.arange(24).reshape(2, 12)
    for _ in range(2):
        model.load_adapter(folder / "adapter")
        np.testing.assert_allclose(model.logits(ids), run.logits(ids), rtol=1e-5, atol=1e-5)
        assert model.tokenizer.chat == run.tokenizer.chat is not None
    model.unload_adapter()
    model.unload_adapter()
    for weight, value in zip(model.model.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    with pytest.raises(UserError, match="was not trained on dialogues"):
        model.chat(QUESTION)


def test_a_base_that_does_not_fit(folder, tmp_path):
    other = minigpt.load(
        import_run(huggingface_folder("sharded", tmp_path / "f"), tmp_path / "run")
    )
    tuned_run = minigpt.load(folder / "run")
    damaged = shutil.copytree(folder / "adapter", tmp_path / "damaged")
    (damaged / "adapter_model.safetensors").write_bytes(b"12345678")
    for model, path in ((other, folder / "adapter"), (tuned_run, damaged), (other, tmp_path)):
        before = model.model
        with pytest.raises(UserError) as caught:
            model.load_adapter(path)
        (problem,) = caught.value.problems
        assert problem.startswith(f"adapter = '{path}': is no adapter of the model: ")
        assert "\n" not in problem and model.model is before


def test_the_commands(folder, tmp_path):
    run, base, adapter = folder / "run", folder / "base", tmp_path / "adapter"
    done = called("export", str(run), "--adapter", "--output", str(adapter))
    assert (done.returncode, done.stdout) == (0, f"Wrote {adapter}\n")
    options = ("--temperature", "0", "--max-new-tokens", "5", "--json")
    asked = called("chat", str(base), "--adapter", str(adapter), *options, input=QUESTION)
    assert asked.returncode == 0, asked.stderr
    minigpt.export_run(run, "gguf", tmp_path / "model.gguf")
    expected = minigpt.load_portable(tmp_path / "model.gguf").chat(QUESTION, 5, temperature=0)
    assert json.loads(asked.stdout)["answer"] == expected


def test_a_model_that_peft_does_not_have(folder, tmp_path, monkeypatch):
    """Its adapter has names of minigpt, and is loaded all the same."""
    monkeypatch.setattr(GPT2, "export_problems", lambda *_: ["model.norm = 1: GPT-2 has 0"])
    monkeypatch.setattr(Qwen3, "export_problems", lambda *_: ["model.norm = 1: Qwen3 has 0"])
    reason = write_adapter_folder(minigpt.Run(folder / "run"), tmp_path / "adapter")
    assert reason.startswith("model.norm = 1: ")
    assert "blocks.0.expand.lora_A.weight" in tensors_of(tmp_path / "adapter")
    model, run = minigpt.load(folder / "base"), minigpt.load(folder / "run")
    model.load_adapter(tmp_path / "adapter")
    ids = np.arange(24).reshape(2, 12)
    np.testing.assert_allclose(model.logits(ids), run.logits(ids), rtol=1e-5, atol=1e-5)


def test_what_the_commands_refuse(tiny_run, tmp_path):
    with pytest.raises(UserError) as caught:
        write_adapter_folder(tiny_run, tmp_path / "adapter")
    assert str(caught.value).startswith(f"run = '{tiny_run.path}': ")
    assert not any(tmp_path.iterdir())
