"""What to change for another time."""

import math
import shlex
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from minigpt.config import Config, load_config
from minigpt.config.fit import TextSize, fitted
from minigpt.config.record import FORMAT
from minigpt.insight.forecast.loss_curves import ExpectedLoss
from minigpt.insight.forecast.training_time import Durations, Schedule, times
from minigpt.models.memory_estimate import matrix_weights

MINUTES = (1.0, 10.0, 60.0)
# A wider model makes better use of the processor: weights times tokens a second grow with the width to this
# power. From 15e9 with 96 to 32e9 with 192 (EXPERIMENTS.md; that is 1.1, with the compilation).
EFFICIENCY = 0.6
# Byte pairs become longer with the logarithm of their number, to this power: 1.93 bytes with 512 and 3.73
# with 4,096, of movie reviews.
LONGER = 2.3
# Widths that are compared for the stories, for which `config.fit` chooses nothing.
WIDTHS = (128, 192, 256)
_NAMED = ("model.embed_dim", "model.num_layers", "tokenizer.kind", "tokenizer.vocab_size")

# (settings, tokens that are trained on, bytes per token) → the loss.
Expect = Callable[[Config, float, float], ExpectedLoss]


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
class Measured:
    """A training that was measured, from which others are estimated.

    Attributes:
      given: the settings of the user.
      config: all settings, resolved.
      text: the size of the text.
      vocab_size: entries of the vocabulary.
      tokens_per_step: tokens of a weight update.
      bytes_per_token: of the training text.
      durations: what was measured.
    """

    given: Config
    config: Config
    text: TextSize
    vocab_size: int
    tokens_per_step: float
    bytes_per_token: float
    durations: Durations


def alternatives(measured: Measured, command: str, expect: Expect) -> list[Alternative]:
    """Returns settings for each of `MINUTES`.

    For a text of the user, they are those that `config.fit` chooses for the time. For the stories the width
    with the lowest expected loss is chosen. A training that would end before the time limit gets more
    epochs, unless its text is short: it is then read often enough.
    """
    found = []
    for minutes in MINUTES:
        candidates = [
            _alternative(measured, config, minutes, command, expect)
            for config in _configs(measured, minutes)
        ]
        found.append(min(candidates, key=_middle))
    return found


def _middle(alternative: Alternative) -> float:
    loss = alternative.loss.loss
    return sum(loss) if loss else 0.0


def _configs(measured: Measured, minutes: float) -> list[Config]:
    """Returns the settings to compare for a time."""
    given = measured.given
    limited = _changed(given, "training", max_minutes=minutes)
    if given.data.source != "stories":
        return [fitted(limited, measured.text)[0]]
    if "embed_dim" in given.model.model_fields_set and given.model.embed_dim not in WIDTHS:
        return [limited]
    if given.model.embed_dim != type(given)().model.embed_dim:
        return [limited]
    return [_changed(limited, "model", embed_dim=width) for width in WIDTHS]


def _changed(config: Config, section: str, **settings: Any) -> Config:
    """Returns settings of the user with others set too."""
    values = {"format": FORMAT} | config.model_dump(exclude_unset=True)
    values[section] = {**values.get(section, {}), **settings}
    return load_config(values)


def _alternative(
    measured: Measured, config: Config, minutes: float, command: str, expect: Expect
) -> Alternative:
    base, training = measured.config, config.training
    vocab_size = measured.vocab_size
    bytes_per_token = measured.bytes_per_token
    if config.tokenizer.vocab_size != base.tokenizer.vocab_size:
        ratio = math.log(config.tokenizer.vocab_size) / math.log(base.tokenizer.vocab_size)
        bytes_per_token *= ratio**LONGER
        vocab_size = config.tokenizer.vocab_size
    tokens_per_step = measured.tokens_per_step
    if base.model.kind == "gpt":
        rows = training.batch_size * training.accumulate_steps
        tokens_per_step = rows * config.sequence_length
    step = measured.durations.step * (tokens_per_step / measured.tokens_per_step)
    step *= _cost(config, vocab_size) / _cost(base, measured.vocab_size)
    durations = replace(measured.durations, step=step)
    per_epoch = training.steps_per_epoch or base.training.steps_per_epoch
    assert per_epoch is not None
    schedule = Schedule(training.epochs, per_epoch, minutes, config.sampling.print_every)
    settings = {"training.max_minutes": f"{minutes:g}"}
    if measured.given.data.source in ("stories", "pairs") or _is_complete(measured):
        within = times(durations, replace(schedule, epochs=1_000_000)).steps
        if (epochs := math.ceil(within / per_epoch)) > schedule.epochs:
            schedule = replace(schedule, epochs=epochs)
            settings["training.epochs"] = str(epochs)
    settings |= {
        name: str(value) for name in _NAMED if (value := _value(config, name)) != _value(base, name)
    }
    found = times(durations, schedule)
    words = tuple(f"{name}={value}" for name, value in settings.items())
    options = "".join(f" --set {shlex.quote(word)}" for word in words)
    return Alternative(
        minutes,
        words,
        _without(command, settings) + options,
        found.total,
        expect(config, found.steps * tokens_per_step, bytes_per_token),
    )


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


def _is_complete(measured: Measured) -> bool:
    """Returns whether the user, or a shipped configuration, has set the number of updates."""
    return {"epochs", "steps_per_epoch"} <= measured.given.training.model_fields_set


def _cost(config: Config, vocab_size: int) -> float:
    """Returns what a token costs, in any unit."""
    return matrix_weights(config.model, vocab_size) / config.model.embed_dim**EFFICIENCY


def _value(config: Config, name: str) -> Any:
    section, key = name.split(".")
    return getattr(getattr(config, section), key)
