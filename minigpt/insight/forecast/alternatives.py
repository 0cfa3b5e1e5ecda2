"""Settings for training runs of other lengths, with their expected time and loss."""

import math
import shlex
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from minigpt.config import Config, load_config
from minigpt.config.fit import TextSize, fitted
from minigpt.config.loading import FORMAT
from minigpt.corpus.token_store import Corpus
from minigpt.insight.forecast.expected_loss import ExpectedLoss, LossForecast
from minigpt.insight.forecast.training_time import Durations, times
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
class Measured:
    """A run whose beginning was measured, from which others are estimated.

    Attributes:
      given: the settings of the user.
      config: all settings, resolved.
      corpus: the text.
      tokens_per_step: tokens of a weight update.
      durations: what was measured.
      losses: the losses to expect.
    """

    given: Config
    config: Config
    corpus: Corpus
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
            return [fitted(limited, self._text_size())[0]]
        is_chosen = "embed_dim" in given.model.model_fields_set and width not in WIDTHS
        if is_chosen or width != type(given)().model.embed_dim:
            return [limited]
        return [_changed(limited, "model", embed_dim=width) for width in WIDTHS]

    def _text_size(self) -> TextSize:
        """Returns the size of the text as `corpus.fit` measures it; the characters are an estimate."""
        train, val, tokenizer = self.corpus.train, self.corpus.val, self.corpus.tokenizer
        size, tokens = train.bytes + val.bytes, train.tokens + val.tokens
        characters = min(size, tokens) if tokenizer.kind == "character" else size
        return TextSize(size, characters, tokenizer.vocab_size, train.bytes / size)

    def _alternative(self, config: Config, minutes: float, command: str) -> Alternative:
        base, training = self.config, config.training
        vocab_size, bytes_per_token = self.corpus.tokenizer.vocab_size, self.losses.bytes_per_token
        if config.tokenizer.vocab_size != base.tokenizer.vocab_size:
            ratio = math.log(config.tokenizer.vocab_size) / math.log(base.tokenizer.vocab_size)
            bytes_per_token *= ratio**LONGER
            vocab_size = config.tokenizer.vocab_size
        tokens_per_step = self.tokens_per_step
        if base.model.kind == "gpt":
            rows = training.batch_size * training.accumulate_steps
            tokens_per_step = rows * config.sequence_length
        step = self.durations.step * (tokens_per_step / self.tokens_per_step)
        step *= _cost(config, vocab_size) / _cost(base, self.corpus.tokenizer.vocab_size)
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
