"""A task with a part of its held-out text, whose scores and samples are timed."""

import abc
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from minigpt.config import Config
from minigpt.corpus.pair_batches import Pairs
from minigpt.evaluation.replicas import Replicas
from minigpt.evaluation.text import Record
from minigpt.generation.translation import BATCH_ROWS, Translator
from minigpt.models import GPT, EncoderDecoder
from minigpt.training.callbacks.callback import Callback
from minigpt.training.tasks.language_modeling import LanguageModeling
from minigpt.training.tasks.task import Task
from minigpt.training.tasks.translation import MAX_BLEU_PAIRS, Translation

# What is validated of a larger held-out part.
VALIDATED_BATCHES, VALIDATED_PAIRS = 8, 256
# The samples of the second epoch still compile; those of the third one do not.
EPOCHS = 3


class TaskPart(Task):
    """Times validation, samples and final scores, and extrapolates them to the whole task.

    Args:
      whole: the whole task.
    Attributes:
      seconds: of each call, by name: "validation", "samples", "final scores".
    """

    def __init__(self, whole: Task) -> None:
        self.whole = whole
        self.seconds: dict[str, list[float]] = defaultdict(list)
        super().__init__(_for_short_epochs(whole.config), whole.corpus)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name].append(time.perf_counter() - start)

    def scores(self) -> dict[str, float | None]:
        with self.timed("validation"):
            return super().scores()  # type: ignore[safe-super]

    def final_scores(self, model: keras.Model) -> dict[str, Any]:
        with self.timed("final scores"):
            return super().final_scores(model)

    def samples(self, *args: Any) -> Callback:
        callback = super().samples(*args)  # type: ignore[safe-super]
        generate = callback.on_epoch_end

        def on_epoch_end(epoch: int, logs: dict[str, Any] | None = None) -> None:
            with self.timed("samples"):
                generate(epoch, logs)

        callback.on_epoch_end = on_epoch_end
        return callback

    def compiling(self, name: str, call: int = 0) -> float:
        """Returns what a call took longer than the last one, in seconds."""
        return max(0.0, self.seconds[name][call] - self.seconds[name][-1])

    @abc.abstractmethod
    def extrapolated(self) -> tuple[float, float, float]:
        """Returns the seconds of a validation, of the samples and of the final scores of the whole task.

        Compilation is contained in the last of them only.
        """


class LanguageModelingPart(TaskPart, LanguageModeling):
    """Validates some batches of windows."""

    def set_model(self, model: GPT, replicas: Replicas | None = None) -> None:
        super().set_model(model, replicas)
        val = self.whole.corpus.val
        tokens = VALIDATED_BATCHES * self.evaluator.batch_size * model.max_len
        part = replace(val, ids=val.ids[: tokens + 1])
        self.share = part.tokens / val.tokens
        self.corpus = replace(self.whole.corpus, val=part)

    def extrapolated(self) -> tuple[float, float, float]:
        seconds = self.seconds
        return seconds["validation"][-1] / self.share, seconds["samples"][-1], 0.0


class TranslationPart(TaskPart, Translation):
    """Validates some pairs. Each translation has the model's maximum length, whatever was learned."""

    def prepare(self) -> None:
        super().prepare()
        # Evenly from all lengths.
        places = np.linspace(0, len(self.val) - 1, min(len(self.val), VALIDATED_PAIRS))
        self.whole_val, end = self.val, np.array([self.val.end_id])
        sentences = [
            side(index)
            for index in places.astype(np.int64)
            for side in (self.val.source, self.val.target)
        ]
        ids, val = np.concatenate([end, *sentences]), self.val
        self.val = Pairs(ids, val.end_id, val.max_len, val.start_id)

    def set_model(self, model: EncoderDecoder, replicas: Replicas | None = None) -> None:
        super().set_model(model, replicas)
        translator = self.evaluator.translator
        # An untrained model may end every sentence at once, or none.
        self.evaluator.translator = Translator(
            model,
            translator.end_id,
            [*translator.never_sampled_ids, translator.end_id],
            translator.start_id,
        )
        self._loss = self.evaluator.loss
        self.evaluator.loss = self._timed_loss  # type: ignore[method-assign]

    def _timed_loss(self, record: Record | None = None) -> float:
        with self.timed("loss"):
            return self._loss(record)

    def extrapolated(self) -> tuple[float, float, float]:
        seconds, pairs = self.seconds, int(self.whole_val.fits.sum())
        measured = int(self.val.fits.sum())
        loss, validation = seconds["loss"][-1], seconds["validation"][-1]
        tracing = max(0.0, self.compiling("validation") - self.compiling("loss"))
        bleu = (validation - loss) * min(pairs, MAX_BLEU_PAIRS) / min(measured, MAX_BLEU_PAIRS)
        final = max(0.0, seconds["final scores"][0] - tracing)
        # A batch of translations ends with its longest one: as long as the longest reference, or as long as
        # possible, which is common until a model has learned to end its sentences. The mean of both.
        length = (self._longest_in_batches() / self.val.max_len + 1) / 2
        return (
            loss * pairs / measured + bleu * length,
            seconds["samples"][-1] * length,
            tracing + final * pairs / measured * length,
        )

    def _longest_in_batches(self) -> float:
        """Returns the mean length of the longest reference of the batches that are translated together."""
        fits = self.whole_val.fits
        order = np.argsort(self.whole_val.source_lengths[fits], kind="stable")
        lengths = self.whole_val.target_lengths[fits][order]
        batches = [lengths[i : i + BATCH_ROWS] for i in range(0, len(lengths), BATCH_ROWS)]
        return float(np.mean([batch.max() for batch in batches]))


def part_of(task: Task) -> TaskPart:
    """Returns a task for `EPOCHS` short epochs that measures what a training does beside its updates."""
    if isinstance(task, Translation):
        return TranslationPart(task)
    return LanguageModelingPart(task)


def _for_short_epochs(config: Config) -> Config:
    """Returns the settings without what would end an epoch, or save within it."""
    training = config.training.model_copy(
        update={
            "epochs": EPOCHS,
            "steps_per_epoch": 1_000_000,
            "max_minutes": None,
            "step_limits": [],
            "early_stopping_patience": None,
            "checkpoint_every_steps": None,
            "checkpoint_every_seconds": None,
        }
    )
    sampling = config.sampling.model_copy(update={"print_every": 1})
    return config.model_copy(update={"training": training, "sampling": sampling})
