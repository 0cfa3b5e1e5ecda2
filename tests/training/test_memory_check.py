"""A model or a batch that does not fit is refused with its sizes, before or after memory has run out."""

import math
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import tensorflow as tf

import minigpt
from minigpt.config import load_config
from minigpt.errors import UserError
from minigpt.models import build_model
from minigpt.models.memory_estimate import (
    check_model_fits,
    machine_bytes,
    matrix_weights,
    training_bytes,
)
from minigpt.training.strategy import enough_memory
from tests.conftest import tiny_settings

SIZES = {"max_len": 9, "embed_dim": 16, "num_heads": 2, "num_layers": 3}


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"tie_embeddings": False, "position": "sinusoidal"},
        {"kind": "encoder_decoder", "block": "post_norm", "value_dim": 5},
        {"convolution": 3, "value_residual": True, "ngrams": [2, 5], "ngram_rows": 70},
    ],
    ids=["tied", "untied", "pairs", "additions"],
)
def test_the_estimate_counts_every_matrix(model):
    data = {"source": "pairs" if "kind" in model else "files", "paths": ["x"]}
    config = load_config({"data": data, "model": SIZES | model}).model
    counted = sum(
        math.prod(variable.shape)
        for variable in build_model(config, 50).weights
        # Biases of attention have a head's shape.
        if len(variable.shape) >= 2 and "bias" not in variable.path
    )
    assert matrix_weights(config, 50) == counted


def test_what_cannot_fit_is_refused_before_anything_is_taken(tiny_file, tmp_path, monkeypatch):
    for module in ("models.memory_estimate", "training.strategy"):
        monkeypatch.setattr(f"minigpt.{module}.machine_bytes", lambda: 10_000)
    monkeypatch.setattr("minigpt.training.start.build_model", None)
    with pytest.raises(UserError, match=r"lower model.embed_dim = 16 or model.num_layers = 2$"):
        minigpt.train(tiny_settings(tiny_file), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match=r"weights need 0\.\d GB; this machine has 0.0 GB"):
        check_model_fits(load_config("default").model, 2048)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("rows", [64, 40])
def test_the_smallest_gpu_is_compared(replicas, rows, monkeypatch):
    """With 40 rows a batch fits that does not with 64."""
    config = load_config({"model": SIZES, "training": {"optimizer": "sgd", "batch_size": rows}})
    state, batch = training_bytes(config, 50)
    most = state + batch * 50 // rows
    gpus = [SimpleNamespace(name=f"/physical_device:GPU:{number}") for number in (0, 2)]
    sizes = [2 * most, 1, most // replicas + state]
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
    monkeypatch.setattr("minigpt.training.strategy.gpu_memory", lambda: sizes)
    limit = (sizes[2] - state) * replicas * rows // batch
    expected = (
        nullcontext() if limit >= rows else pytest.raises(UserError, match=r"GPU has 0\.0 GB")
    )
    with expected as error, enough_memory(config, 50, replicas):
        pass
    assert not error or "lower training.batch_size = 64" in str(error.value)
    monkeypatch.setattr("minigpt.training.strategy.gpu_memory", list)
    with enough_memory(config, 50, replicas):
        pass


@pytest.mark.parametrize(
    "error",
    [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")],
    ids=["python", "tensorflow"],
)
def test_memory_that_runs_out_is_told(error, tiny_file, tmp_path, monkeypatch):
    def out_of_memory(*_):
        raise error

    monkeypatch.setattr("minigpt.training.start.build_model", out_of_memory)
    with pytest.raises(UserError, match=r"^out of memory: model.embed_dim = 16, ff_dim = 64, "):
        minigpt.train(tiny_settings(tiny_file), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_this_machine_has_memory():
    assert 2**28 < machine_bytes() < 2**60
