"""The epochs of training on several replicas, as in `Model.fit`."""

from collections.abc import Callable

import keras

from minigpt.training.replicated_step import ReplicatedStep


def replicated_fit(
    step: ReplicatedStep,
    callbacks: list[keras.callbacks.Callback],
    agree: Callable[[], None],
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
      agree: called after the callbacks of every batch and epoch; makes `model.stop_training` the same in
        all processes.
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
            listed.on_train_batch_end(index, logs)
            agree()
            if model.stop_training:
                break
        logs = {name: float(value) for name, value in model.get_metrics_result().items()}
        listed.on_epoch_end(epoch, logs)
        agree()
        if model.stop_training:
            break
    listed.on_train_end(logs)
