"""A look into a training that goes its own way: `minigpt.train`, or any `model.fit`."""

from collections.abc import Callable
from typing import Any

import wrapt

Look = Callable[[Any, int, str], None]


class Finished(BaseException):
    """Raised by a look to end the training: all that was to be measured is measured."""


def watch(look: Look) -> None:
    """Has `look(model, updates so far, event)` called in every training of this process.

    Events are "begin" (of the training) and "step" (an update, or several in one call, is made). Keras is
    not imported here: when it is, is part of what is measured.
    """

    @wrapt.when_imported("keras")
    def add_callback(keras: Any) -> None:
        class Watch(keras.callbacks.Callback):
            def on_train_begin(self, logs: Any = None) -> None:
                look(self.model, 0, "begin")

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                # Read from the optimizer: right however many updates a call makes.
                look(self.model, int(self.model.optimizer.iterations), "step")

        def init(self: Any, callbacks: Any = None, *args: Any, **kwargs: Any) -> None:
            plain(self, [*(callbacks or []), Watch()], *args, **kwargs)

        # Keras' fit and our own loop both hand their callbacks to this class.
        plain = keras.callbacks.CallbackList.__init__
        keras.callbacks.CallbackList.__init__ = init
