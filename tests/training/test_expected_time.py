"""How long a training may take, against a count of the multiplications of a model that is built."""

import pytest

from minigpt.config import Config
from minigpt.models import build_model
from minigpt.training import expected_time
from minigpt.training.expected_time import SHARE_OF_PRODUCTS, expected_seconds
from minigpt.training.summary import expected

V = 50


def config_of(tied: bool) -> Config:
    model = {"max_len": 16, "embed_dim": 32, "num_heads": 4, "num_layers": 3}
    return Config.model_validate({"model": model | {"tie_embeddings": tied}})


@pytest.mark.parametrize("tied", [False, True])
def test_a_gpt_multiplies_each_token_with_every_matrix_once(monkeypatch, tied):
    monkeypatch.setattr(expected_time, "_products_per_second", lambda config: 1e6)
    config = config_of(tied)
    model = build_model(config.model, V)
    in_blocks = [w for block in model.blocks for w in block.trainable_weights if len(w.shape) == 2]
    multiplied = sum(w.shape[0] * w.shape[1] for w in in_blocks) + V * 32
    # Forward, and back for each of the two factors.
    operations = 2 * multiplied * (3 * 700 + 100)
    found = expected_seconds(config, V, 700, 100)
    assert found == pytest.approx(operations / 1e6 / SHARE_OF_PRODUCTS)


def test_this_machine_multiplies():
    assert 1e8 < expected_time._products_per_second(config_of(True)) < 1e15


def test_a_short_training_has_no_estimate_in_seconds():
    assert [expected(seconds) for seconds in (0.2, 9, 42)] == [
        "less than a minute",
        "less than a minute",
        "about 42 s",
    ]
