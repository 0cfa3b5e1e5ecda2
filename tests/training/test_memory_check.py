"""A model or a batch that does not fit is refused with its sizes, before or after memory has run out."""

import math

import pytest
import tensorflow as tf

import minigpt
from minigpt.config import load_config
from minigpt.errors import UserError
from minigpt.models import build_model
from minigpt.models.memory_estimate import (
    matrix_weights,
)
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
    monkeypatch.setattr("minigpt.training.pipeline.build_model", None)
    with pytest.raises(UserError, match=r"lower model.embed_dim = 16 or model.num_layers = 2$"):
        minigpt.train(tiny_settings(tiny_file), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "error",
    [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")],
    ids=["python", "tensorflow"],
)
def test_memory_that_runs_out_is_told(error, tiny_file, tmp_path, monkeypatch):
    def out_of_memory(*_):
        raise error

    monkeypatch.setattr("minigpt.training.pipeline.build_model", out_of_memory)
    with pytest.raises(UserError, match=r"^out of memory: model.embed_dim = 16, "):
        minigpt.train(tiny_settings(tiny_file), tmp_path / "run")
    assert not (tmp_path / "run").exists()
