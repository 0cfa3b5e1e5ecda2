"""The expected time of training, against a count of the multiplications of a model that is built."""

from types import SimpleNamespace

import pytest

from minigpt.config import Config
from minigpt.models import build_model
from minigpt.training import messages

V = 50


@pytest.mark.parametrize("tied", [False, True])
def test_a_gpt_multiplies_each_token_with_every_matrix_once(monkeypatch, tied):
    monkeypatch.setattr(messages, "probe_speed", lambda training: (1e6, 0))
    sizes = {"max_len": 16, "embed_dim": 32, "num_heads": 4, "num_layers": 3}
    training = {"epochs": 2, "steps_per_epoch": 7, "accumulate_steps": 3}
    config = Config.model_validate(
        {"model": {**sizes, "tie_embeddings": tied}, "training": training}
    )
    model = build_model(config.model, V)
    in_blocks = [w for block in model.blocks for w in block.trainable_weights if len(w.shape) == 2]
    multiplied = sum(w.shape[0] * w.shape[1] for w in in_blocks) + V * 32
    val = SimpleNamespace(tokens=300)
    task = SimpleNamespace(config=config, tokens_per_batch=50, corpus=SimpleNamespace(val=val))
    # Forward, and back for each of the two factors; an evaluation is the first third.
    expected = multiplied * (2 * 7 * 3 * 50 + 2 * 300 / 3) / 1e6
    assert messages.training_seconds(task, model) == pytest.approx(expected)
