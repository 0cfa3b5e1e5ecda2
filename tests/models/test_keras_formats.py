"""The models in Keras' own formats: exports, and on several devices."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.models.test_encoder_decoder import KINDS as PAIR_KINDS
from tests.models.test_encoder_decoder import small_model
from tests.models.test_gpt import MODERN, small_gpt

IDS = np.random.default_rng(0).integers(1, 13, (3, 7)).astype("int32")
LENGTHS = np.array([7, 4, 1], "int32")
TRIPLE = (IDS, LENGTHS, IDS[:, ::-1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt", "modern", "encoder_decoder"])
def test_every_kind_is_exported_without_a_call(tmp_path, kind):
    """As a SavedModel. The other formats of `export` have the same inputs."""
    model, inputs = small_gpt(**MODERN[0] if kind == "modern" else {}), {"token_ids": IDS}
    if kind == "encoder_decoder":
        model = small_model(**PAIR_KINDS[0])
        inputs = {"source_ids": IDS, "source_lengths": LENGTHS, "target_ids": TRIPLE[2]}
    model.export(tmp_path / "model", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    found = loaded.signatures["serving_default"](**inputs)["output_0"]
    np.testing.assert_allclose(found, model(IDS if len(inputs) == 1 else TRIPLE), atol=1e-4)


STRATEGIES = """
import keras, numpy as np, tensorflow as tf, minigpt
cpu, = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
ids = np.random.default_rng(0).integers(0, 11, (8, 9))
x, y = ids[:, :-1], ids[:, 1:]

def losses(strategy):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = minigpt.GPT(vocab_size=11, max_len=8, embed_dim=8, num_heads=2, dropout_rate=0.0)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, jit_compile=False)
    rows = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    history = model.fit(rows, epochs=2, verbose=0).history["loss"]
    logits = model.predict(x, batch_size=8, verbose=0)
    return [*history, model.evaluate(x, y, batch_size=8, verbose=0), *logits.ravel()]

expected = losses(tf.distribute.get_strategy())
assert expected[1] < expected[0]
mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
for strategy in (mirrored, tf.distribute.OneDeviceStrategy("CPU:1")):
    np.testing.assert_allclose(losses(strategy), expected, rtol=1e-4, atol=1e-5)
print("done")
"""


@pytest.mark.slow
def test_strategies_of_tensorflow_train_the_same_model():
    """A process of its own: a CPU is divided before TensorFlow uses it."""
    command = [sys.executable, "-W", "ignore", "-c", STRATEGIES]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "done" in done.stdout, done.stderr[-3000:]
