"""The interface of a task: data, loss, scores and samples. A task prints nothing."""

import abc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from minigpt.config import Config
from minigpt.corpus.datasets import batch_dataset
from minigpt.corpus.text_files import recorded_path
from minigpt.corpus.token_store import Corpus
from minigpt.evaluation.breakdown import LossBreakdown
from minigpt.evaluation.text import Replicas
from minigpt.training.callbacks.callback import Callback
from minigpt.training.callbacks.progress import Display

Record = Callable[[dict[str, Any]], None]
# Inputs, targets and their weights; see `minigpt.models.language_model.LanguageModel.train_step`.
Batch = tuple[Any, np.ndarray, np.ndarray | None]


class Task(abc.ABC):
    """A corpus, and what a model should learn from it.

    Args:
      config: settings.
      corpus: the token ids that they describe.

    Attributes:
      config: the settings, with all open values resolved, so that the run can be repeated from them.
      batches_in_pass: batches in one pass over the training text.
      tokens_per_batch: tokens in a batch, on average.
      sequence_length: tokens in a sequence; None for sentences of their own lengths.
      breakdown: where the loss of the last call of `loss` is high; None before.
    """

    batches_in_pass: int
    tokens_per_batch: float
    sequence_length: int | None = None
    breakdown: LossBreakdown | None = None

    def __init__(self, config: Config, corpus: Corpus) -> None:
        self.config = config
        self.corpus = corpus
        self.prepare()
        self.config = self._resolved()

    def _resolved(self) -> Config:
        config, training = self.config, self.config.training
        # One pass over the training text, unless set.
        steps = max(1, self.batches_in_pass // training.accumulate_steps)
        data, tokenizer = config.data, config.tokenizer
        settings = {"paths", "val_paths"} & set(type(data).model_fields)
        paths = {name: list(map(recorded_path, getattr(data, name))) for name in settings}
        name = getattr(data, "name", "")
        folder = {"name": str(Path(name).absolute())} if Path(name).is_dir() and name else {}
        data = data.model_copy(update=paths | folder)
        if path := getattr(tokenizer, "path", None):
            tokenizer = tokenizer.model_copy(update={"path": recorded_path(path)})
        config = config.with_training(steps_per_epoch=training.steps_per_epoch or steps)
        changes = {"data": data, "tokenizer": tokenizer, "model": config.model.resolved()}
        return config.model_copy(update=changes)

    @abc.abstractmethod
    def prepare(self) -> None:
        """Checks the settings against the corpus, and sets the attributes.

        Raises:
          UserError: the text is too short for a batch, or a setting cannot be used with the corpus
            or its tokenizer.
        """

    @abc.abstractmethod
    def batch(self, number: int) -> Batch:
        """Returns one batch, as arrays."""

    @property
    @abc.abstractmethod
    def batch_signature(self) -> Any:
        """A nest of `tf.TensorSpec`: the arrays of every batch, as `Model.fit` takes them."""

    def batches(self, first: int, count: int) -> tf.data.Dataset:
        """Returns `count` batches from number `first` on, as `Model.fit` takes them.

        They are computed by this task, which must exist as long as they are read.
        """
        # TensorFlow keeps the function of each dataset until the process ends. The task and its model
        # are not to be kept with it.
        of_task = weakref.ref(self)

        def batch(number: int) -> Batch:
            task = of_task()
            assert task is not None, "The batches of a task cannot be read without the task."
            return task.batch(number)

        return batch_dataset(batch, self.batch_signature, first, count)

    @abc.abstractmethod
    def objective(self) -> dict[str, Any]:
        """Returns loss and metrics, as `Model.compile` takes them."""

    @abc.abstractmethod
    def set_model(self, model: keras.Model, replicas: Replicas | None = None) -> None:
        """Sets the model that `loss` and `scores` evaluate.

        Args:
          model: the model.
          replicas: those of the model that share the batches of the loss; None for the default device.
        """

    @property
    @abc.abstractmethod
    def split(self) -> str:
        """The two sides of the split in words, for the summary."""

    @property
    @abc.abstractmethod
    def baselines(self) -> tuple[float, float]:
        """The losses of the uniform distribution and of the token frequencies, in nats per token."""

    @abc.abstractmethod
    def describe(self) -> dict[str, str]:
        """Returns lines about the corpus by subject, for the summary; "Baselines" is one of them."""

    def new_breakdown(self) -> LossBreakdown:
        """Returns an empty breakdown, which `loss` fills."""
        self.breakdown = LossBreakdown(self.corpus.tokenizer, self.corpus.token_counts)
        return self.breakdown

    @abc.abstractmethod
    def loss(self) -> float:
        """Returns the model's mean loss on the held-out text, in nats per token; sets `breakdown`."""

    @abc.abstractmethod
    def scores(self) -> dict[str, float | None]:
        """Returns the model's scores on the held-out text, by name; `val_loss` is one of them."""

    @abc.abstractmethod
    def samples(self, display: Display, record: Record) -> Callback:
        """Returns the callback that shows and records what the model generates.

        Args:
          display: shows it.
          record: called with each record of samples.jsonl.
        """

    def final_scores(self, model: keras.Model) -> dict[str, Any]:
        """Returns additional scores of the best model after training; {} if there are none."""
        return {}
