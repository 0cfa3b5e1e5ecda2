"""The common interface of new and resumed training."""

import abc
from contextlib import AbstractContextManager

import keras

from minigpt.config import Config
from minigpt.corpus.store_files import Corpus
from minigpt.distribution.replicas import Replicas
from minigpt.models import GPT, build_model
from minigpt.models.lora import enable_lora
from minigpt.runs.checkpoints import Checkpoint
from minigpt.runs.facts import Facts
from minigpt.runs.run import Run
from minigpt.training.callbacks.checkpointing import Checkpointing
from minigpt.training.fine_tuning import FineTuning
from minigpt.training.tasks.task import Task


class Start(abc.ABC):
    """What training starts from.

    Args:
      config: the settings.
      fine_tuning: the run whose weights it starts from, if `training.init_from` names one.
      checkpoint: the state to resume from; None for the first step.
    """

    def __init__(
        self,
        config: Config,
        fine_tuning: FineTuning | None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.config = config
        self.fine_tuning = fine_tuning
        self.checkpoint = checkpoint

    @abc.abstractmethod
    def open_corpus(self) -> Corpus:
        """Returns the token ids to train on.

        Raises:
          UserError: the text cannot be used.
        """

    def build_model(self, task: Task, replicas: Replicas | None = None) -> keras.Model:
        """Returns the model before its first step. A checkpoint is not restored yet.

        Args:
          task: what it is trained for.
          replicas: where its variables are created; None for the default device.
        Raises:
          UserError: the run to start from has no model that can be used.
        """
        if replicas is None:
            return initial_model(task, self.fine_tuning)
        return replicated_model(task, self.fine_tuning, replicas)

    @abc.abstractmethod
    def run_directory(self, task: Task, facts: Facts) -> AbstractContextManager[Run]:
        """Yields the run directory, which is locked for this process. A new one holds `facts`."""

    @abc.abstractmethod
    def discard_later_results(self, checkpointing: Checkpointing) -> None:
        """Removes the results that are later than the checkpoint, and records the settings."""

    def describe(self, run: Run, step: int, end: int) -> str:
        """Returns the lines about the run directory and the first step that precede training."""
        return f"Run         {run.path}"


def initial_model(task: Task, fine_tuning: FineTuning | None) -> keras.Model:
    """Returns the model of a task before its first step.

    Raises:
      UserError: the run to start from has no model that can be used.
    """
    config = task.config
    # Loaded first: initial values depend on what was built before.
    finished = fine_tuning.load_model() if fine_tuning else None
    model = build_model(config.model, task.corpus.tokenizer.vocab_size, config.training.precision)
    if finished:
        for weight, value in zip(model.weights, finished.weights, strict=True):
            weight.assign(value)
    if config.training.lora_rank:
        assert isinstance(model, GPT)
        enable_lora(model, config.training.lora_rank)
    return model


def replicated_model(task: Task, fine_tuning: FineTuning | None, replicas: Replicas) -> keras.Model:
    """Returns the model of a task before its first step, with a copy on every replica.

    Raises:
      UserError: the run to start from has no model that can be used.
    """
    model = initial_model(task, fine_tuning)
    with replicas.scope():
        copies = initial_model(task, None)
    # Random initial values would depend on the number of replicas.
    for variable, value in zip(copies.variables, model.variables, strict=True):
        variable.assign(value)
    return copies
