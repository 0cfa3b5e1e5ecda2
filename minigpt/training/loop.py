"""Keras' `fit`, able to begin in the midst of an epoch."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf


def fit(
    model: keras.Model,
    batches: tf.data.Dataset,
    callbacks: Sequence[keras.callbacks.Callback],
    epochs: int,
    batches_per_epoch: int,
    first_epoch: int = 0,
    first_batch: int = 0,
    restore_metrics: Callable[[], None] = lambda: None,
) -> None:
    """Does what `model.fit` does, from a place that may lie within an epoch.

    Callbacks see the epoch and the batch numbers that they would have seen without the interruption.

    Args:
      model: compiled.
      batches: those still to be seen, first to last.
      callbacks: as `fit` takes them.
      epochs: in all.
      batches_per_epoch: in each of them.
      first_epoch: epochs done.
      first_batch: batches done of the next one; all of them where only its end is left to do.
      restore_metrics: called when an epoch begins that is done in part: sets its means so far.
    """
    container = keras.callbacks.CallbackList(
        list(callbacks), model=model, epochs=epochs, steps=batches_per_epoch
    )
    model.make_train_function()
    iterator = iter(batches)
    container.on_train_begin()
    for epoch in range(first_epoch, epochs):
        begin = first_batch if epoch == first_epoch else 0
        model.reset_metrics()
        if begin:
            restore_metrics()
        container.on_epoch_begin(epoch)
        for batch in range(begin, batches_per_epoch):
            if model.stop_training:
                break
            container.on_train_batch_begin(batch)
            container.on_train_batch_end(batch, model.train_function(iterator))
        container.on_epoch_end(epoch, model.get_metrics_result())
        if model.stop_training:
            break
    container.on_train_end()
