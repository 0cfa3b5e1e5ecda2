"""Saved models load in a new process without `custom_objects`."""

import subprocess
import sys

import numpy as np

from minigpt.models.losses import SmoothedCrossentropy
from minigpt.training.optimizers import Muon
from tests.models.test_encoder_decoder import KINDS as PAIR_KINDS
from tests.models.test_encoder_decoder import small_model
from tests.models.test_gpt import small_gpt

CODE = """
import keras, minigpt
import numpy as np
ids = np.load("ids.npy")
inputs = {"gpt": ids, "encoder_decoder": (ids, np.array([8, 4, 1], "int32"), ids)}
for name, values in inputs.items():
    model = keras.models.load_model(f"{name}.keras")
    np.testing.assert_allclose(model(values), np.load(f"{name}.npy"), rtol=1e-4, atol=1e-5)
    assert type(model.optimizer).__name__ == "Muon", model.optimizer
"""


def test_models_load_in_a_fresh_process_without_custom_objects(tmp_path):
    ids = np.random.default_rng(1).integers(0, 13, (3, 8)).astype("int32")
    np.save(tmp_path / "ids.npy", ids)
    models = {
        "gpt": (small_gpt(activation="gelu_tanh"), ids),
        "encoder_decoder": (
            small_model(**PAIR_KINDS[1]),
            (ids, np.array([8, 4, 1], "int32"), ids),
        ),
    }
    for name, (model, inputs) in models.items():
        model.compile(Muon(), SmoothedCrossentropy(0.1))
        model.save(tmp_path / f"{name}.keras")
        np.save(tmp_path / f"{name}.npy", model(inputs).numpy())
    subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, check=True)
