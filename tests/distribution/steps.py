"""A program: trains for some steps on any number of devices, and prints what it saw as JSON.

    python -m tests.distribution.steps SETTINGS.json STEPS

With TF_CONFIG, the program is one of several workers.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from pydantic_core import to_jsonable_python

from minigpt.config import Config, load_config
from minigpt.corpus.token_store import open_corpus
from minigpt.distribution.devices import Devices
from minigpt.distribution.step import ReplicatedStep
from minigpt.training.pipeline import build_task, initial_model


def train(settings: dict[str, Any], steps: int) -> dict[str, Any]:
    """Returns the losses of the batches, the states of the replicas, and scores of the initial weights."""
    config = load_config(settings)
    devices = Devices()
    with devices.open(config.training):
        return train_on(devices, config, steps)


def train_on(devices: Devices, config: Config, steps: int) -> dict[str, Any]:
    replicas = devices.replicas
    task = build_task(config, open_corpus(config.data, config.tokenizer))
    model = devices.build_model(lambda: initial_model(task))
    devices.compile(task, model)
    if replicas is None:
        step = tf.function(model.train_step, jit_compile=config.training.uses_xla)
    else:
        step = ReplicatedStep(config.training, model, replicas)
    losses = []
    for number in range(steps):
        model.reset_metrics()
        losses.append(float(step(task.batch(number))["loss"]))
    states = states_of_replicas([*model.weights, *model.optimizer.variables])
    # Of the same weights whatever the number of replicas, which draw initial values of their own.
    keras.utils.set_random_seed(1)
    for variable, value in zip(model.weights, initial_model(task).weights, strict=True):
        variable.assign(value)
    return {
        "replicas": replicas.count if replicas else 1,
        "losses": losses,
        "states": states,
        "scores": task.scores(),
        "breakdown": to_jsonable_python(task.breakdown.results()),
    }


def states_of_replicas(variables: list[keras.Variable]) -> list[str]:
    """Returns a hash of all variables for each replica of this worker."""
    copies = [getattr(variable.value, "values", (variable.value,)) for variable in variables]
    return [
        hashlib.sha256(b"".join(value.numpy().tobytes() for value in of_replica)).hexdigest()
        for of_replica in zip(*copies, strict=True)
    ]


if __name__ == "__main__":
    settings = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps(train(settings, int(sys.argv[2]))))
