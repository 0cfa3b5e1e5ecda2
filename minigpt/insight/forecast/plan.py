"""The forecast of a training run. Its first updates are made and measured."""

import math
import shlex
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import tensorflow as tf

from minigpt.config import Config, load_config
from minigpt.config.fit import TextSize, fitted
from minigpt.config.loading import FORMAT
from minigpt.corpus.fit import speed_and_gpus
from minigpt.environment import peak_memory, program_name, reset_peak_memory
from minigpt.insight.forecast.expected_loss import ExpectedLoss, LossForecast
from minigpt.insight.forecast.measuring import Durations, Times, measure, times
from minigpt.interrupts import stop_if_interrupted
from minigpt.models.lora import count_merged
from minigpt.models.memory_estimate import matrix_weights
from minigpt.notices import LOGGER
from minigpt.training.console import count, duration, rounded
from minigpt.training.messages import parameters_by_part, summary_lines
from minigpt.training.start import new_training
from minigpt.training.strategy import Strategy, enough_memory, memory_of_gpus
from minigpt.training.tasks import build_task

MINUTES = (1.0, 10.0, 60.0)
# A wider model makes better use of the processor: weights times tokens a second grow with the width to this
# power. From 15e9 with 96 to 32e9 with 192 (EXPERIMENTS.md; that is 1.1, with the compilation).
EFFICIENCY = 0.6
# Byte pairs become longer with the logarithm of their number, to this power: 1.93 bytes with 512 and 3.73
# with 4,096, of movie reviews.
LONGER = 2.3
# Widths that are compared for the stories, for which `config.fit` chooses nothing.
WIDTHS = (128, 192, 256)
_NAMED = (
    *(("model", "embed_dim"), ("model", "num_layers")),
    *(("tokenizer", "kind"), ("tokenizer", "vocab_size")),
)


@dataclass(frozen=True)
class Alternative:
    """Settings for another time limit.

    Attributes:
      minutes: the time limit.
      settings: what to add to the command, as "SECTION.KEY=VALUE".
      command: the whole command.
      total_seconds: from the start of the program to its end.
      loss: the expected validation loss.
    """

    minutes: float
    settings: tuple[str, ...]
    command: str
    total_seconds: float
    loss: ExpectedLoss

    def as_dict(self) -> dict[str, Any]:
        return {
            "minutes": self.minutes,
            "settings": list(self.settings),
            "command": self.command,
            "total_seconds": round(self.total_seconds, 1),
            **self.loss.as_dict(),
        }


@dataclass(frozen=True)
class Forecast:
    """The forecast of a training run: time, memory, loss; see `docs/guide.md`, "Forecasts".

    Attributes:
      subjects: what is trained, as JSON values: text, tokens, model, training, parameters, device, and
        memory_bytes, the peak of the resident memory of the process. gpu_memory_bytes is the peak of what
        TensorFlow allocates on the first GPU, gpu_total_bytes what that GPU has; None without a GPU.
      times: seconds.
      loss: the expected validation loss.
      alternatives: settings for other time limits.
      lines: the summary for people, by subject.
    """

    subjects: Mapping[str, Any]
    times: Times
    loss: ExpectedLoss
    alternatives: Sequence[Alternative]
    lines: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Returns the forecast as JSON values; the names are stable."""
        return {
            **self.subjects,
            "first_epoch_seconds": round(self.times.first_epoch, 1),
            "total_seconds": round(self.times.total, 1),
            "seconds": {part: round(seconds, 2) for part, seconds in self.times.parts.items()},
            **self.loss.as_dict(),
            "alternatives": [alternative.as_dict() for alternative in self.alternatives],
        }

    def in_words(self) -> str:
        """Returns one line per subject, and two for each alternative."""
        times, training = self.times, self.subjects["training"]
        planned = training["epochs"] * training["steps_per_epoch"]
        accumulated = f" x {training['accumulate_steps']}" * (training["accumulate_steps"] > 1)
        length = training["sequence_length"]
        parts = [f"{k} {duration(seconds)}" for k, seconds in times.parts.items() if seconds >= 0.5]
        lines = dict(self.lines) | {
            "Training": f"{count(training['epochs'], 'epoch')} of "
            f"{count(training['steps_per_epoch'], 'step')} of {training['batch_size']}{accumulated}"
            + (f" x {length} tokens" if length else " pairs")
            + f"; {rounded(training['passes'])} passes over the text in {count(times.steps, 'step')}"
        }
        if times.steps < planned:
            lines["Time limit"] = (
                f"training ends after about {times.steps:,} of {planned:,} steps "
                f"(training.max_minutes = {training['max_minutes']:g})"
            )
        lines |= {
            "Memory": f"about {self.subjects['memory_bytes'] / 1e6:,.0f} MB at its peak"
            + _of_gpu(self.subjects["gpu_memory_bytes"], self.subjects["gpu_total_bytes"]),
            "Time": f"about {duration(times.first_epoch)} for the first epoch, "
            f"{duration(times.total)} in all ({', '.join(parts)})",
            "Loss": self.loss.in_words,
        }
        text = [f"{name:<12}{line}" for name, line in lines.items()]
        for alternative in self.alternatives:
            text += [f"{alternative.minutes:g} min: {alternative.command}"]
            text += [f"  {alternative.loss.in_words}"]
        return "\n".join(text)


def plan(
    config: Config | Mapping[str, Any] | str | Path | None = None,
    run: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    name: str | None = None,
    command: str | None = None,
    seconds_before: float = 0.0,
) -> Forecast:
    """Forecasts the time, the memory and the loss of `train` with the same arguments.

    The model is built and compiled, trained for 24 updates, validated on a part of the held-out text, saved
    and exported, in a temporary directory that is removed. This takes about as long as compiling and
    exporting, half a minute for a small model. The token ids are written to the cache folder, where `train`
    reads them. Nothing else is written.

    Args:
      config, run, overrides, name: as for `train`.
      command: how the user calls `train`, for the suggested commands; found out if None.
      seconds_before: seconds before this call, for imports, that training would take too.
    Raises:
      UserError: as `train`.
      KeyboardInterrupt: after Ctrl-C; nothing is left but token ids.
    """
    began = time.perf_counter()
    start = new_training(config, overrides, run, name)
    stop_if_interrupted()
    device = Strategy().set_up(start.config.training)
    opened = time.perf_counter()
    corpus = start.open_corpus()
    if not corpus.from_cache:
        # Training will find the token ids, and need no memory to learn a tokenizer.
        began += time.perf_counter() - opened
        corpus = start.open_corpus()
        reset_peak_memory()
    task = build_task(start.config, corpus)
    with enough_memory(task.config, corpus.tokenizer.vocab_size):
        model = start.build_model(task)
        for line in start.chosen:
            LOGGER.info("%s", line)
        Strategy().compile(task, model)
        lines = summary_lines(task, model, device)
        stop_if_interrupted()
        preparation = seconds_before + time.perf_counter() - began
        parameters = parameters_by_part(model) | {"total": count_merged(model)}
        with tempfile.TemporaryDirectory(prefix="minigpt-plan-") as folder:
            durations = replace(measure(task, model, Path(folder)), preparation=preparation)
    stop_if_interrupted()
    training, is_stories = task.config.training, task.config.data.source == "stories"
    found = times(durations, training, task.config.sampling.print_every)
    losses = LossForecast(corpus, task.baselines, is_stories)
    tokens_per_step = task.tokens_per_batch * training.accumulate_steps
    trained = found.steps * tokens_per_step
    # The file of the token ids is mapped: memory contains what was read of it.
    passes = found.steps * training.accumulate_steps / task.batches_in_pass
    memory = peak_memory() + int(corpus.train.ids.nbytes * min(1.0, passes))
    gpus = tf.config.get_visible_devices("GPU")
    gpu_peak = tf.config.experimental.get_memory_info("GPU:0")["peak"] if gpus else None
    measured = Measured(start.given, task.config, tokens_per_step, durations, losses)
    train, val = corpus.train, corpus.val
    return Forecast(
        subjects={
            "text": {
                "source": task.config.data.source,
                "paths": list(getattr(task.config.data, "paths", ())),
                "train_bytes": train.bytes,
                "val_bytes": val.bytes,
                "train_documents": train.documents,
                "val_documents": val.documents,
                "duplicates": corpus.duplicates,
                "split": task.split,
            },
            "tokens": {
                "train_tokens": train.tokens,
                "val_tokens": val.tokens,
                "kind": corpus.tokenizer.kind,
                "vocab_size": corpus.tokenizer.vocab_size,
                "bytes_per_token": round(losses.bytes_per_token, 4),
            },
            "model": task.config.model.model_dump(),
            "training": {
                "epochs": training.epochs,
                "steps_per_epoch": training.steps_per_epoch,
                "batch_size": training.batch_size,
                "accumulate_steps": training.accumulate_steps,
                "sequence_length": task.sequence_length,
                "max_minutes": training.max_minutes,
                "steps": found.steps,
                "tokens": round(trained),
                "passes": round(passes, 3),
            },
            "parameters": parameters,
            "device": device,
            "memory_bytes": memory,
            "gpu_memory_bytes": gpu_peak,
            "gpu_total_bytes": memory_of_gpus(gpus[:1]) if gpus else None,
        },
        times=found,
        loss=losses.expected(task.config, trained, losses.bytes_per_token),
        alternatives=measured.alternatives(command or f"{program_name()} train"),
        lines=lines,
    )


@dataclass(frozen=True)
class Measured:
    """A run whose beginning was measured, from which others are estimated.

    Attributes:
      given: the settings of the user.
      config: all settings, resolved.
      tokens_per_step: tokens of a weight update.
      durations: what was measured.
      losses: the losses to expect, of runs on the same text.
    """

    given: Config
    config: Config
    tokens_per_step: float
    durations: Durations
    losses: LossForecast

    def alternatives(self, command: str) -> list[Alternative]:
        """Returns settings for each of `MINUTES`.

        For a text of the user, they are those that `config.fit` chooses for the time. For the stories the
        width with the lowest expected loss is chosen. Training that would end before the time limit gets
        more epochs, unless its text is short: it is then read often enough.

        Args:
          command: how the user calls `train`.
        """
        found = []
        for minutes in MINUTES:
            candidates = [
                self._alternative(config, minutes, command) for config in self._configs(minutes)
            ]
            found.append(min(candidates, key=lambda each: sum(each.loss.loss or ())))
        return found

    def _configs(self, minutes: float) -> list[Config]:
        """Returns the settings to compare for a time."""
        given, width = self.given, self.given.model.embed_dim
        limited = _changed(given, "training", max_minutes=minutes)
        if given.data.source != "stories":
            speed, gpus = speed_and_gpus(given.training)
            size = self._text_size()
            return [fitted(limited, size, speed, gpus)[0] if gpus else fitted(limited, size)[0]]
        is_chosen = "embed_dim" in given.model.model_fields_set and width not in WIDTHS
        if is_chosen or width != type(given)().model.embed_dim:
            return [limited]
        return [_changed(limited, "model", embed_dim=width) for width in WIDTHS]

    def _text_size(self) -> TextSize:
        """Returns the size of the text as `corpus.fit` measures it; the characters are an estimate."""
        corpus = self.losses.corpus
        train, val, tokenizer = corpus.train, corpus.val, corpus.tokenizer
        size, tokens = train.bytes + val.bytes, train.tokens + val.tokens
        characters = min(size, tokens) if tokenizer.kind == "character" else size
        different = len(set(b"".join(tokenizer.pieces).decode(errors="ignore")))
        return TextSize(size, characters, different, train.bytes / size)

    def _alternative(self, config: Config, minutes: float, command: str) -> Alternative:
        base, training = self.config, config.training
        bytes_per_token = self.losses.bytes_per_token
        vocab_size = base_vocab_size = self.losses.corpus.tokenizer.vocab_size
        if config.tokenizer.vocab_size != base.tokenizer.vocab_size:
            ratio = math.log(config.tokenizer.vocab_size) / math.log(base.tokenizer.vocab_size)
            bytes_per_token *= ratio**LONGER
            vocab_size = config.tokenizer.vocab_size
        tokens_per_step = self.tokens_per_step
        if base.model.kind == "gpt":
            rows = training.batch_size * training.accumulate_steps
            tokens_per_step = rows * config.sequence_length
        step = self.durations.step * (tokens_per_step / self.tokens_per_step)
        step *= _cost(config, vocab_size) / _cost(base, base_vocab_size)
        durations, print_every = replace(self.durations, step=step), config.sampling.print_every
        per_epoch = training.steps_per_epoch or base.training.steps_per_epoch
        assert per_epoch is not None
        schedule = training.model_copy(update={"steps_per_epoch": per_epoch})
        settings = {"training.max_minutes": f"{minutes:g}"}
        # Whether the user, or a shipped configuration, has set the number of updates.
        is_complete = {"epochs", "steps_per_epoch"} <= self.given.training.model_fields_set
        if self.given.data.source in ("stories", "pairs") or is_complete:
            endless = schedule.model_copy(update={"epochs": 1_000_000})
            epochs = math.ceil(times(durations, endless, print_every).steps / per_epoch)
            if epochs > schedule.epochs:
                schedule = schedule.model_copy(update={"epochs": epochs})
                settings["training.epochs"] = str(epochs)
        for section, key in _NAMED:
            value = getattr(getattr(config, section), key)
            if value != getattr(getattr(base, section), key):
                settings[f"{section}.{key}"] = str(value)
        found = times(durations, schedule, print_every)
        words = tuple(f"{name}={value}" for name, value in settings.items())
        options = "".join(f" --set {shlex.quote(word)}" for word in words)
        return Alternative(
            minutes,
            words,
            _without(command, settings) + options,
            found.total,
            self.losses.expected(config, found.steps * tokens_per_step, bytes_per_token),
        )


def _changed(config: Config, section: str, **settings: Any) -> Config:
    """Returns settings of the user with others set too."""
    values = {"format": FORMAT} | config.model_dump(exclude_unset=True)
    values[section] = {**values.get(section, {}), **settings}
    return load_config(values)


def _of_gpu(peak: int | None, total: int | None) -> str:
    """Returns what follows the resident memory in the summary; empty without a GPU."""
    if peak is None:
        return ""
    return f"; {peak / 1e6:,.0f} MB of the GPU" + (f"'s {total / 1e6:,.0f} MB" if total else "")


def _without(command: str, names: Collection[str]) -> str:
    """Returns a command without its options `--set` of these settings."""
    words = shlex.split(command)
    left_out = {
        place
        for at, (word, value) in enumerate(pairwise(words))
        if word == "--set" and value.partition("=")[0] in names
        for place in (at, at + 1)
    }
    return shlex.join(word for at, word in enumerate(words) if at not in left_out)


def _cost(config: Config, vocab_size: int) -> float:
    """Returns what a token costs, in any unit."""
    return matrix_weights(config.model, vocab_size) / config.model.embed_dim**EFFICIENCY
