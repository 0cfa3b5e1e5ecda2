"""The interface of a task: data, loss, scores and samples. A task prints nothing."""

import abc
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from minigpt.config import Config
from minigpt.config.complete import resolved
from minigpt.corpus.text_files import recorded_path
from minigpt.corpus.token_store import Corpus
from minigpt.evaluation.breakdown import LossBreakdown
from minigpt.generation.base_models import BaseTextModel
from minigpt.training.progress import Display

# Takes the number of epochs that are done; returns the records of samples.jsonl.
Samples = Callable[[float], list[dict[str, Any]]]
# Inputs, targets and their weights; see `minigpt.models.language_model.LanguageModel.train_step`.
Batch = tuple[Any, np.ndarray, np.ndarray | None]


class Task(abc.ABC):
    """A corpus, and what a model should learn from it.

    Attributes:
      config: the settings, with all open values resolved, so that the run can be repeated from them.
      batches_in_pass: batches in one pass over the training text.
      tokens_per_batch: tokens in a batch, on average.
      sequence_length: tokens in a sequence; None for sentences of their own lengths.
      batch_signature: a nest of `tf.TensorSpec` of the arrays of every batch, as the arguments of a
        function; None if all batches have the same shapes.
      breakdown: where the loss of the last call of `scores` is high; None before.
      open_state: opens the model as it is in the engine, which has to trace and compile nothing to continue
        texts; None if TensorFlow writes the samples.
    """

    batches_in_pass: int
    tokens_per_batch: float
    sequence_length: int | None = None
    batch_signature: Any = None
    breakdown: LossBreakdown | None = None
    open_state: Callable[[], BaseTextModel] | None = None

    def __init__(self, config: Config, corpus: Corpus) -> None:
        self.config = config
        self.corpus = corpus
        corpus.tokenizer.check_banned(config.sampling.banned_tokens, "sampling.banned_tokens")
        self.prepare()
        self.config = resolved(self.config, self.batches_in_pass, recorded_path)

    @abc.abstractmethod
    def prepare(self) -> None:
        """Checks the settings against the corpus, and sets the attributes.

        Raises:
          UserError: the text is too short for a batch, or a setting does not suit the corpus.
        """

    @abc.abstractmethod
    def batch(self, number: int) -> Batch:
        """Returns one batch, as arrays."""

    @abc.abstractmethod
    def objective(self) -> dict[str, Any]:
        """Returns loss and metrics, as `Model.compile` takes them."""

    @abc.abstractmethod
    def set_model(self, model: keras.Model) -> None:
        """Sets the model that `scores` evaluates."""

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
        """Returns an empty breakdown, which `scores` fills."""
        self.breakdown = LossBreakdown(self.corpus.tokenizer, self.corpus.token_counts)
        return self.breakdown

    @abc.abstractmethod
    def scores(self) -> dict[str, Any]:
        """Returns the model's scores on the held-out text, by name; sets `breakdown`.

        `val_loss` is one of them, in nats per token.
        """

    @abc.abstractmethod
    def samples(self, model: keras.Model, display: Display) -> Samples:
        """Returns a function that generates text with the model as it is, shows it, and returns records."""

    def final_scores(self, model: keras.Model) -> dict[str, Any]:
        """Returns additional scores of the best model after training; {} if there are none."""
        return {}
