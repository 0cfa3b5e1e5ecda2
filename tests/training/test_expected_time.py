"""The expected time of training, against a count of the multiplications of a model that is built."""

import math
import time
from collections.abc import Callable

import pytest
import tensorflow as tf

from minigpt.config import Config
from minigpt.models import build_model
from minigpt.models.memory_estimate import block_weights
from minigpt.training import messages
from minigpt.training.messages import SHARE_OF_PRODUCTS, expected, expected_seconds

V = 50


def config_of(tied: bool) -> Config:
    model = {"max_len": 16, "embed_dim": 32, "num_heads": 4, "num_layers": 3}
    return Config.model_validate({"model": model | {"tie_embeddings": tied}})


@pytest.mark.parametrize("tied", [False, True])
def test_a_gpt_multiplies_each_token_with_every_matrix_once(monkeypatch, tied):
    monkeypatch.setattr(messages, "_products_per_second", lambda *sizes: 1e6)
    config = config_of(tied)
    model = build_model(config.model, V)
    in_blocks = [w for block in model.blocks for w in block.trainable_weights if len(w.shape) == 2]
    multiplied = sum(w.shape[0] * w.shape[1] for w in in_blocks) + V * 32
    # Forward, and back for each of the two factors.
    operations = 2 * multiplied * (3 * 700 + 100)
    found = expected_seconds(config, V, 700, 100)
    assert found == pytest.approx(operations / 1e6 / SHARE_OF_PRODUCTS)


def test_this_machine_multiplies():
    assert 1e8 < messages._products_per_second(128, 32, 128, "float32") < 1e15


class Machine:
    """Multiplies in so many seconds by a clock of its own.

    Args:
      slower: returns how many times as long as usual a product takes, by its number and by whether it is
        the first of its size.
    """

    def __init__(self, monkeypatch, per_second: float, slower: Callable[[int, bool], float]):
        self.now, self.products, self.sizes = 0.0, 0, set()
        self.per_second, self.slower = per_second, slower
        monkeypatch.setattr(tf, "matmul", self.matmul)
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def matmul(self, a, b):
        size = (*a.shape, b.shape[1])
        factor = self.slower(self.products, size not in self.sizes)
        self.now += 2 * math.prod(size) / self.per_second * factor
        self.products += 1
        self.sizes.add(size)
        return tf.zeros([a.shape[0], b.shape[1]])


def seconds_on_machine(monkeypatch, slower: Callable[[int, bool], float]) -> tuple[float, float]:
    """Returns the forecast, and what it should be; a product of all rows takes 5 ms."""
    config, vocab_size = config_of(True), 50
    rows = config.training.batch_size * 16
    per_second = 2 * rows * 32 * config.model.ff_size / 0.005
    machine = Machine(monkeypatch, per_second, slower)
    found = expected_seconds(config, vocab_size, 700, 100)
    assert 0 < machine.now < 1.5
    weights = block_weights(config.model) + vocab_size * 32
    return found, 2 * weights * (3 * 700 + 100) / per_second / SHARE_OF_PRODUCTS


@pytest.mark.parametrize(
    "slower",
    [
        lambda number, is_first_of_size: 90 if number == 0 else 1,
        lambda number, is_first_of_size: 90 if is_first_of_size else 1,
        # One in eight is disturbed by another program.
        lambda number, is_first_of_size: 20 if is_first_of_size or number % 8 == 7 else 1,
    ],
    ids=["first", "first of a size", "disturbed"],
)
def test_cold_products_do_not_count(monkeypatch, slower):
    found, right = seconds_on_machine(monkeypatch, slower)
    assert found == pytest.approx(right)


def test_measurements_that_disagree_give_no_forecast(monkeypatch):
    found, _ = seconds_on_machine(monkeypatch, lambda number, _: 10 if number // 3 % 2 else 1)
    assert found is None
    assert expected(found) == (
        "no forecast of the time: measurements of this machine's speed differ by more than a factor of 2"
    )


def test_a_wide_model_is_measured_quickly(monkeypatch):
    """A product of all rows would take 4 s."""
    machine = Machine(monkeypatch, 2e10, lambda number, is_first_of_size: 1)
    found = messages._products_per_second(8 * 1024, 1600, 6400, "float32")
    assert found == pytest.approx(2e10)
    assert machine.now < 1


def test_a_short_training_has_no_estimate_in_seconds():
    assert [expected(seconds) for seconds in (0.2, 9, 42)] == [
        "less than a minute",
        "less than a minute",
        "about 42 s",
    ]
