"""A program: trains, and in worker 1 a callback stops the training at some batch.

python -m tests.distribution.stopping CONFIG RUN BATCH
"""

import sys
from typing import Any

import keras

import minigpt
from minigpt.distribution.cluster import find_cluster


class Stop(keras.callbacks.Callback):
    """Stops worker 1."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        cluster = find_cluster()
        if cluster and cluster.index == 1 and batch + 1 == int(sys.argv[3]):
            self.model.stop_training = True


if __name__ == "__main__":
    minigpt.train(sys.argv[1], sys.argv[2], callbacks=[Stop()])
