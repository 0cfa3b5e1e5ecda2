"""Training that starts from a run: whole, with LoRA, and what its checkpoints keep."""

import json
import math
import re
from pathlib import Path

import keras
import numpy as np
import pytest

import minigpt
from minigpt.config import load_config
from minigpt.errors import UserError
from minigpt.models import GPT
from minigpt.models.lora import enable_lora, merged_weights
from minigpt.models.state import arrays_of, restore
from minigpt.runs.checkpoints import read_checkpoint
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.run import Run
from minigpt.targets.huggingface.folders import import_run
from minigpt.training.optimizers import build_optimizer
from tests.targets.huggingface.folders import huggingface_folder

TUNED = {"epochs": 2, "steps_per_epoch": 30, "batch_size": 8, "learning_rate": 1e-2}


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("start")
    return import_run(huggingface_folder("narrow", folder / "folder"), folder / "run")


def settings(start: Run, text: Path, model=None, **training):
    return {
        "data": {"source": "files", "paths": [str(text)]},
        "model": model or {},
        "training": {**TUNED, "init_from": str(start.path), **training},
        "sampling": {"max_new_tokens": 5},
    }


def losses(run: Run) -> list[float]:
    return [json.loads(line)["val_loss"] for line in run.metrics_file.read_text().splitlines()]


@pytest.mark.parametrize("lora_rank", [None, 4])
def test_starts_where_the_run_is_and_learns(
    lora_rank, start, tiny_file, tmp_path, capsys, no_export
):
    changes = {} if lora_rank is None else {"lora_rank": lora_rank}
    changes["keep_snapshots"] = True
    run = minigpt.train(settings(start, tiny_file, **changes), tmp_path / "run")
    before = minigpt.evaluate_run(start, [str(tiny_file)]).loss
    # The fixture's random weights are far worse than guessing; they are where it begins.
    assert before > 1.2 * math.log(400)
    start_loss, *later = losses(run)
    assert later[1] < later[0] < start_loss == pytest.approx(before, rel=0.05)
    config = run.config
    assert config.model.resolved() == start.config.model.resolved()
    assert run.load_tokenizer().fingerprint() == start.load_tokenizer().fingerprint()

    total = 8 * 400 + 8 * 72 + 2 * (24 * 8 + 24 + 72 + 32 * 8 + 32 + 32 * 8 + 8 + 32) + 16
    matrices = 2 * ((8 + 24) + (8 + 8) + (8 + 32) + (32 + 8))
    trained = matrices * lora_rank if lora_rank else total
    line = re.search(r"Fine-tuning .*: ([\d,]+) of ([\d,]+) parameters", capsys.readouterr().out)
    assert line is not None
    assert line[1] == f"{trained:,}" and line[2] == f"{total + trained * bool(lora_rank):,}"

    # Merged everywhere: a plain GPT, with the loss that was measured while training.
    opened = minigpt.load(run)
    assert opened.model.count_params() == total
    assert minigpt.evaluate_run(run).loss == pytest.approx(min(losses(run)), rel=1e-4)
    minigpt.export_run(run, "huggingface", tmp_path / "folder")
    again = minigpt.load(import_run(tmp_path / "folder", tmp_path / "again"))
    ids = np.array([[1, 2, 3]], "int32")
    np.testing.assert_array_equal(again.logits(ids), opened.logits(ids))
    # In the snapshots too, to the precision of float16, and of int8 for rows of 32 numbers.
    portable = minigpt.load_portable(run.snapshots()[30])
    after_30 = run.load_model(read_checkpoint(checkpoint_paths(run.checkpoints_folder)[0]))
    np.testing.assert_allclose(portable.logits(ids), after_30(ids), rtol=0, atol=0.1)
    assert run.facts["parameters"] == total
    frozen = opened.model.embedding.token_embedding.embeddings.numpy()
    original = minigpt.load(start).model.embedding.token_embedding.embeddings.numpy()
    assert np.array_equal(frozen, original) == bool(lora_rank)


def compiled(start: Run, optimizer: str = "adamw") -> keras.Model:
    """A model with LoRA, about to be trained."""
    config = start.config.model.model_copy(update={"dropout_rate": 0.0})
    model = GPT(config.model_copy(update={"attention_dropout_rate": 0.0}), 400)
    for weight, value in zip(model.weights, start.load_model().weights, strict=True):
        weight.assign(value)
    enable_lora(model, 2)
    training = load_config(None, [f"training.optimizer={optimizer}"]).training
    model.compile(
        optimizer=build_optimizer(training, model),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_state_goes_on_as_if_nothing_had_been(optimizer, start):
    draw = np.random.default_rng(0)
    ids = draw.integers(0, 400, (12, 4, 8)).astype("int32")

    def train(model, batches):
        return [model.train_on_batch(batch[:, :-1], batch[:, 1:]) for batch in batches]

    model = compiled(start, optimizer)
    train(model, ids[:6])
    arrays = {name: array.copy() for name, array in arrays_of(model).items()}
    again = compiled(start, optimizer)
    restore(again, arrays)
    kept = [*model.weights, *model.optimizer.variables]
    restored = [*again.weights, *again.optimizer.variables]
    assert sum(weight.name.startswith("lora_kernel") for weight in kept[: len(model.weights)]) == 16
    for ours, right in zip(restored, kept, strict=True):
        np.testing.assert_array_equal(ours, right, err_msg=right.path)
    for weight in model.weights:
        if weight.name == "lora_kernel_b":
            assert np.abs(weight).max() > 0
    train(model, ids[6:])
    train(again, ids[6:])
    for ours, right in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, right)


def test_merged_weights_compute_the_same_and_of_the_tables_only_some_vectors_change():
    sizes = {"vocab_size": 20, "max_len": 8, "embed_dim": 16, "num_heads": 2, "ff_dim": 32}
    model, merged = (GPT(**sizes, block="modern", num_layers=1) for _ in range(2))
    before, tokens = model.get_weights(), [3, 5]
    enable_lora(model, 2, tokens)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=False)
    ids = np.random.default_rng(0).integers(0, 20, (4, 9)).astype("int32")
    ids[0, :2] = tokens
    for _ in range(3):
        model.train_on_batch(ids[:, :-1], ids[:, 1:])
    merged.set_weights(merged_weights(model))
    np.testing.assert_allclose(merged(ids[:, 1:]), model(ids[:, 1:]), rtol=1e-4, atol=1e-5)
    for value, former in zip(merged.get_weights(), before, strict=True):
        change = np.abs(value - former)
        if 20 in value.shape:
            assert np.flatnonzero(change.max(value.shape.index(16))).tolist() == tokens
        elif value.ndim == 2:
            assert np.linalg.matrix_rank(value - former, tol=1e-4) == 2
        else:
            assert not change.any()


def test_what_contradicts_the_run_is_refused_by_name(start, tiny_file, tmp_path):
    wrong = settings(
        start,
        tiny_file,
        model={"max_len": 9, "embed_dim": 16, "num_heads": 2, "block": "post_norm"},
    )
    wrong["tokenizer"] = {"kind": "byte_pair"}
    with pytest.raises(UserError) as caught:
        minigpt.train(wrong, tmp_path / "run")
    problems = caught.value.problems
    assert [problem.split(" = ")[0] for problem in problems] == [
        # Its positions are learned.
        "model.max_len",
        "model.embed_dim",
        "model.block",
        "tokenizer.kind",
    ]
    assert "has 8; should be equal or left out" in problems[1]
    with pytest.raises(UserError, match="does not exist"):
        minigpt.train(settings(Run(start.path), tiny_file, init_from="nowhere"), tmp_path / "run")
    with pytest.raises(UserError, match=r"lora_rank = 4.*needs training\.init_from"):
        load_config(None, ["training.lora_rank=4"])
    assert not (tmp_path / "run").exists()
