"""The epochs of training on several replicas, as in `Model.fit`."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import keras

from minigpt.distribution.agreement import Agreement
from minigpt.distribution.connection import LOST
from minigpt.distribution.replicated_step import ReplicatedStep
from minigpt.errors import UserError


def replicated_fit(
    step: ReplicatedStep,
    callbacks: list[keras.callbacks.Callback],
    agreement: Agreement,
    *,
    first_batch: int,
    initial_epoch: int,
    epochs: int,
    steps_per_epoch: int,
) -> None:
    """Trains and calls callbacks like `Model.fit`, which fails with `MultiWorkerMirroredStrategy`.

    Args:
      step: one batch of training.
      callbacks: Keras callbacks.
      agreement: asked after the callbacks of every batch and epoch whether training ends in all processes.
      first_batch: number of the first batch.
      initial_epoch, epochs, steps_per_epoch: as for `Model.fit`.
    """
    model, batch = step.model, first_batch
    listed = keras.callbacks.CallbackList(
        callbacks, add_history=True, model=model, epochs=epochs, steps=steps_per_epoch
    )
    model.stop_training = False
    listed.on_train_begin()
    logs: dict[str, float] = {}
    for epoch in range(initial_epoch, epochs):
        model.reset_metrics()
        listed.on_epoch_begin(epoch)
        for index in range(steps_per_epoch):
            listed.on_train_batch_begin(index)
            logs = step(batch)
            batch += 1
            with _announced(agreement):
                listed.on_train_batch_end(index, logs)
            if agreement():
                break
        logs = {name: float(value) for name, value in model.get_metrics_result().items()}
        with _announced(agreement):
            listed.on_epoch_end(epoch, logs)
        if agreement():
            break
    listed.on_train_end(logs)


@contextmanager
def _announced(agreement: Agreement) -> Iterator[None]:
    """Tells the other processes if a callback fails: they would report that this one has ended."""
    try:
        yield
    except (UserError, OSError):
        # If another worker is lost as well, the first reason is reported.
        with suppress(*LOST):
            agreement.fail()
        raise
