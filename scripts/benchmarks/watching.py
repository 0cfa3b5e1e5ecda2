"""Observes training without changing its code: `minigpt.train` or any `model.fit`."""

from collections.abc import Callable
from typing import Any

import wrapt

Observer = Callable[[Any, int, str], None]


class Finished(BaseException):
    """Raised by an observer to end the training when the measurement is complete."""


def watch(observe: Observer) -> None:
    """Calls `observe(model, number of updates, event)` during all training in this process.

    The events are "begin" (the training begins) and "step" (one or more updates are done). This function
    does not import Keras, because the time of that import is part of some measurements.
    """

    @wrapt.when_imported("keras")
    def add_callback(keras: Any) -> None:
        class Watch(keras.callbacks.Callback):
            def on_train_begin(self, logs: Any = None) -> None:
                observe(self.model, 0, "begin")

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                # Read from the optimizer, because one call may make several updates.
                observe(self.model, int(self.model.optimizer.iterations), "step")

        def init(self: Any, callbacks: Any = None, *args: Any, **kwargs: Any) -> None:
            plain(self, [*(callbacks or []), Watch()], *args, **kwargs)

        # Keras' fit passes its callbacks to this class.
        plain = keras.callbacks.CallbackList.__init__
        keras.callbacks.CallbackList.__init__ = init
