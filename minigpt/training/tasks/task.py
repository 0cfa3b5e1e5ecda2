"""What a training is about; one file a task beside this one.

The trainer assembles and fits; a task knows its text, its loss, its score and what there is to see.
"""

import abc
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from minigpt.config import Config
from minigpt.corpus.token_store import Corpus
from minigpt.runs.run import Run
from minigpt.training.callbacks.display import Display


class Task(abc.ABC):
    """A corpus, and what a model is to learn from it.

    Args:
      config: settings.
      corpus: the token ids they describe.

    Attributes:
      batches_in_pass: batches in one pass over the training text.
      tokens_per_batch: tokens in a batch, on average.
      sequence: what batch_size counts, such as "128 tokens".
    """

    batches_in_pass: int
    tokens_per_batch: float
    sequence: str

    def __init__(self, config: Config, corpus: Corpus) -> None:
        self.config = config
        self.corpus = corpus

    @abc.abstractmethod
    def batches(self, first: int, count: int) -> tf.data.Dataset:
        """`count` batches from number `first` on, as `Model.fit` takes them.

        Raises:
          UserError: the text is too short for one.
        """

    @abc.abstractmethod
    def objective(self) -> dict[str, Any]:
        """Loss and metrics, as `Model.compile` takes them."""

    @abc.abstractmethod
    def watch(self, model: keras.Model) -> None:
        """Takes the model whose scores are asked for from now on."""

    @abc.abstractmethod
    def describe(self) -> dict[str, str]:
        """What is said of text, tokens and batches before training, by heading."""

    @abc.abstractmethod
    def scores(self) -> dict[str, float | None]:
        """What an epoch's figures say of the held-out text; `val_loss` is one of them."""

    @abc.abstractmethod
    def samples(
        self, display: Display, record: Callable[[dict[str, Any]], None]
    ) -> keras.callbacks.Callback:
        """The callback that shows and records what the model writes."""

    @abc.abstractmethod
    def command(self, program: str, run: Run) -> str:
        """What to type next, such as "Sample from it with: minigpt sample RUN"."""

    def last_words(self, model: keras.Model) -> str:
        """What is said of the best model at the end; "" for nothing."""
        return ""
