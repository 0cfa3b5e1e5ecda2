"""Completes settings. Each one is given, or chosen for the text, or that of the run to start from.

What has to be measured, the size of the text and the speed of the machine, is an argument. The user's
settings are kept; what is not mentioned here has its default.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigpt.config.beginning import may_differ, settings_for, with_sizes_of
from minigpt.config.loading import FORMAT, load_config
from minigpt.config.schema import STORIES_DEFAULTS, Config
from minigpt.config.tokenizer import BytePairConfig
from minigpt.errors import UserError
from minigpt.runs.layout import bases

Settings = dict[str, dict[str, Any]]

# The time limit if none is set.
MAX_MINUTES = 10.0
# Texts with fewer bytes are learned character by character.
CHARACTERS_BELOW = 60_000
# The same for texts with more than 1.9 bytes in a character on average, such as Hindi and Chinese.
LONG_CHARACTERS_BELOW = 15_000
# About this many bytes are held out. Evaluating 200 KB takes one to two seconds.
HELD_OUT = 200_000
# Speed of training, in weights times tokens per second, on the machine on which the choices were measured:
# two cores with AVX-512.
REFERENCE_SPEED = 22e9
# The least bits per byte for the recipe of dialogues: who speaks is new to a base that knows the words.
DIALOGUE_BITS = 3.0
# Parts of every model for a text, unless the user wants only standard ones.
ADDITIONS = {"value_residual": True, "convolution": 4}
SAMPLES = {"max_new_tokens": 120, "temperature": 0.7}
# Passes over the text after which the held-out loss was lowest, with the dropout rate chosen for it.
PASSES = 12
# The weight of R-Drop for a text that is read more than so often.
R_DROP, R_DROP_PASSES = 4.0, 15
# From this number of bytes on, the batches are larger, and the time limits the size of the model.
LONG_TEXT = 1_000_000
# A text of so many bytes gets a larger model and larger batches if there are so many reference minutes, as
# on a GPU. Not measured.
LARGE_TEXT, LARGE_MINUTES = 20_000_000, 100
# On GPUs, the batch of a long text grows to this many rows per GPU, while this many updates are left. Not
# measured.
GPU_ROWS, GPU_UPDATES = 32, 2000
# A time limit shortens training, but never extends it beyond its plan. So the plan is for a faster machine.
PLANNED_SPEED = 2
# Estimates for English.
CHARACTERS_PER_WORD = 5.0
BYTES_PER_TOKEN_OF_GPT2 = 4.0


@dataclass(frozen=True)
class TextSize:
    """The size of a text.

    Attributes:
      bytes: of UTF-8.
      characters: Unicode code points.
      different_characters: the number of code points that occur.
      training_share: share of the characters that the split leaves for training; None if the text has not
        been split.
    """

    bytes: int
    characters: int
    different_characters: int = 0
    training_share: float | None = None


@dataclass(frozen=True)
class Completed:
    """Complete settings, and where they come from.

    Attributes:
      config: the settings.
      origins: name of a setting, such as "training.epochs" → "given", "chosen for 20,000 bytes of text" or
        "of the run runs/a". One that is left out has its default.
      beginning: lines that say what training starts from, and why, and what to expect; "" if nothing is
        known.
      bits: bits per byte, before training, of the model that training could start from, and of a 7-gram of
        the text itself; None if they were not measured.
    """

    config: Config
    origins: Mapping[str, str]
    beginning: str = ""
    bits: tuple[float, float] | None = None

    def in_words(self, vocab_size: int | None = None) -> list[str]:
        """Returns lines that say what was chosen; none if nothing was. `vocab_size` is the learned one."""
        first, lines = "", defaultdict(list)
        for name, value in self.config.settings().items():
            if (origin := self.origins.get(name, "")).startswith("chosen"):
                first = f"{origin.capitalize()} (each of these can be set):"
                if vocab_size and name == "tokenizer.vocab_size":
                    value = vocab_size
                shown = str(value).lower() if isinstance(value, bool | None) else repr(value)
                lines[name.split(".")[0]].append(f"{name} = {shown}")
        chosen = [first, *(f"  {', '.join(named)}" for named in lines.values())] if lines else []
        return [*self.beginning.splitlines(), *chosen]


def settings_to_choose(config: Config) -> set[str]:
    """Returns the settings that should be chosen for the text because the user has not set them.

    Nothing is chosen for the bundled stories, for which the defaults are made, unless a model goes on with
    them.

    Returns:
      Names such as "training.epochs".
    """
    if config.data.source == "stories" and config.training.init_from is None:
        return set()
    return _names(_Choice(config, TextSize(0, 0)).unset_settings())


def complete(
    config: Config,
    text: TextSize | None = None,
    speed: float = REFERENCE_SPEED,
    gpus: int = 0,
    source: Config | None = None,
    bits: float | None = None,
) -> Completed:
    """Fills in what the user has not set.

    Args:
      text: the size of the text; None if nothing is to be chosen for it.
      speed: of training on all devices, in weights times tokens per second.
      gpus: the number of GPUs that share a batch.
      source: the settings of the run that `training.init_from` names.
      bits: bits per byte of that run on the text, before training.
    Raises:
      UserError: a setting contradicts a chosen one or the run; one line each.
    """
    given = config.model_dump(exclude_unset=True)
    # The defaults of the stories are set, too, but nobody gave them.
    defaults = STORIES_DEFAULTS if config.data.source == "stories" else {}
    origins = {
        f"{section}.{name}": "given"
        for section, settings in given.items()
        for name, value in settings.items()
        if defaults.get(section, {}).get(name) != value
    }
    if text:
        chosen = _Choice(config, text, speed, gpus, source, bits).unset_settings()
        sections = {name: chosen.get(name, {}) | given.get(name, {}) for name in chosen | given}
        config = load_config({"format": FORMAT} | sections)
        unit = "token ids" if config.data.source == "ids" else "bytes of text"
        origins |= dict.fromkeys(_names(chosen), f"chosen for {text.bytes:,} {unit}")
    if source:
        own = {f"model.{name}" for name in may_differ(source.model) & config.model.model_fields_set}
        config = with_sizes_of(source, config)
        sizes = {"model": dict(config.model), "tokenizer": dict(config.tokenizer)}
        kind = "base" if config.training.init_from in bases() else "run"
        origins |= dict.fromkeys(_names(sizes) - own, f"of the {kind} {config.training.init_from}")
    names = ["dropout_rate", "attention_dropout_rate", "ff_dropout_rate"]
    names += ["ngram_dropout_rate"] if getattr(config.model, "ngrams", []) else []
    if config.training.r_drop and not any(getattr(config.model, name) for name in names):
        problem = "has no effect without dropout; should be 0, or model.dropout_rate above 0"
        raise UserError(f"training.r_drop = {config.training.r_drop:g}: {problem}")
    length, max_len = config.sequence_length, config.model.max_len
    has_table = config.model.position == "learned" and config.data.source != "pairs"
    if config.training.init_from is None and has_table and length < max_len:
        raise UserError(
            f"training.sequence_length = {length}: should be model.max_len = {max_len} or unset: with "
            "model.position = 'learned' and without training.init_from, later positions are never trained"
        )
    return Completed(config, origins)


def resolved(config: Config, batches_in_pass: int, recorded: Callable[[str], str]) -> Config:
    """Returns settings from which a run can be repeated anywhere: with all sizes, and paths that are found.

    Args:
      config: complete settings.
      batches_in_pass: batches in one pass over the training text, the steps of an epoch unless set.
      recorded: returns the path with which the same file is found from another folder.
    """
    training, data, tokenizer = config.training, config.data, config.tokenizer
    steps = training.steps_per_epoch or max(1, batches_in_pass // training.accumulate_steps)
    for name in {"paths", "val_paths"} & set(type(data).model_fields):
        data = data.model_copy(update={name: list(map(recorded, getattr(data, name)))})
    # A data set may be a folder.
    if (name := getattr(data, "name", "")) and Path(name).is_dir():
        data = data.model_copy(update={"name": recorded(name)})
    if path := getattr(tokenizer, "path", None):
        tokenizer = tokenizer.model_copy(update={"path": recorded(path)})
    changes = {"data": data, "tokenizer": tokenizer, "model": config.model.resolved()}
    return config.with_training(steps_per_epoch=steps).model_copy(update=changes)


def _names(sections: Mapping[str, Mapping[str, Any]]) -> set[str]:
    return {f"{section}.{key}" for section, settings in sections.items() for key in settings}


class _Choice:
    """The choice of settings for a text and a time limit; the arguments are those of `complete`.

    The user's settings are kept, and the number of steps is adjusted to them.
    """

    def __init__(
        self,
        config: Config,
        text: TextSize,
        speed: float = REFERENCE_SPEED,
        gpus: int = 0,
        source: Config | None = None,
        bits: float | None = None,
    ) -> None:
        self.config, self.text, self.speed, self.gpus = config, text, speed, gpus
        self.source, self.bits = source or config, bits
        self.is_short = text.bytes < CHARACTERS_BELOW
        self.minutes = config.training.max_minutes or MAX_MINUTES
        # The time on the reference machine.
        self.reference_minutes = self.minutes * speed / REFERENCE_SPEED
        held_out = min(0.1, HELD_OUT / text.bytes) if text.bytes else 0.1
        self.val_fraction = max(1e-6, round(held_out, 6))
        share = text.training_share
        if share is None:
            share = 1 - self.setting("data.val_fraction", self.val_fraction)
        self.training_share: float = share

    def is_set(self, name: str) -> bool:
        section, key = name.split(".")
        return key in getattr(self.config, section).model_fields_set

    def setting(self, name: str, chosen: Any) -> Any:
        """Returns the user's value of a setting, such as "training.epochs", or else the chosen one."""
        section, key = name.split(".")
        return getattr(getattr(self.config, section), key) if self.is_set(name) else chosen

    def unset_settings(self) -> Settings:
        """Returns the settings for the text that the user has not set."""
        if self.config.data.source == "pairs":
            settings = self.for_pairs()
        elif self.config.training.init_from is not None:
            settings = self.for_fine_tuning()
        else:
            settings = self.for_text()
        unset = {
            section: {key: v for key, v in values.items() if not self.is_set(f"{section}.{key}")}
            for section, values in settings.items()
        }
        # A configuration that lacks these parts alone, or settings of samples, is complete.
        of_training = _names({name: unset[name] for name in unset if name != "sampling"})
        is_complete = of_training <= {"training.r_drop", *(f"model.{name}" for name in ADDITIONS)}
        return {section: {} for section in unset} if is_complete else unset

    def for_text(self) -> Settings:
        """Returns sections of a configuration for a text and a time limit.

        The values are the best of those measured (EXPERIMENTS.md): 5, 20 and 100 KB of prose, code and
        Russian, by steps; 500 KB of prose in 3 min; 11 MB of code in 4 min, 60 MB in 1 and 3 min. The width
        of 192 for a long text in 10 min is that of `configs/imdb.toml`, measured in 11 min. The rest is
        extrapolated.

        The length limits what can be learned from a short text: it gets a small model and `PASSES` passes,
        with dropout, R-Drop and a high weight decay; training stops when the held-out loss rises. The time
        limits what can be learned from a long one: the more time, the wider the model, up to a width of
        256.
        """
        training = self.config.training
        tokenizer = self.tokenizer()
        kind = tokenizer["kind"]
        vocab_size = tokenizer.get("vocab_size", self.config.tokenizer.vocab_size)
        vocab_size = self.setting("tokenizer.vocab_size", vocab_size)
        # Given ids are counted as characters. Their number is exact, all others are estimates.
        is_exact = kind == "character" or self.config.data.source == "ids"
        counted_as = "character" if is_exact else kind
        tokens = self.training_share * _tokens(self.text, counted_as, vocab_size)
        length, max_len, batch_size = self.batch(tokens if is_exact else tokens / 2)
        width, blocks = _model_for(self.text.bytes, self.reference_minutes)
        embed_dim = self.setting("model.embed_dim", width)
        weights = 12 * self.setting("model.num_layers", blocks) * embed_dim**2
        weights += vocab_size * embed_dim
        tokens_in_time = 60 * self.minutes * self.speed / weights
        tokens_per_step = length * batch_size * training.accumulate_steps
        epochs = self.setting("training.epochs", 5 if self.minutes < 5 else 10)
        # Other programs may have made the measured speed too low.
        most_in_time = PLANNED_SPEED * tokens_in_time * max(1.0, REFERENCE_SPEED / self.speed)
        # R-Drop needs twice as many passes, and steps may take twice as long as measured.
        has_time = tokens < weights and tokens_in_time > 3.5 * PASSES * tokens
        has_dropout = self.setting("model.dropout_rate", 0.2) > 0 and batch_size > 1
        r_drop = self.setting("training.r_drop", R_DROP if has_time and has_dropout else 0.0)
        planned = min((2 if r_drop else 1) * PASSES * tokens, most_in_time)
        # At least ten updates.
        per_epoch = max(math.ceil(10 / epochs), round(planned / (tokens_per_step * epochs)))
        if self.is_set("training.steps_per_epoch"):
            one_pass = max(1, int(tokens / tokens_per_step))
            per_epoch = training.steps_per_epoch or one_pass
        trained: float = epochs * per_epoch * tokens_per_step
        if training.max_minutes or not self.is_set("training.max_minutes"):
            trained = min(trained, tokens_in_time)
        # A weight holds a few bits, and so does a token: a model cannot memorize a text that has more
        # tokens than the model has weights.
        passes = trained / max(1.0, tokens) if tokens < weights else 0.0
        r_drop = r_drop if passes > R_DROP_PASSES else 0.0
        dropout_rate = 0.1 if passes > 2 else 0.0
        if passes > 4 or training.r_drop:
            dropout_rate = 0.2
        return {
            "data": {"val_fraction": self.val_fraction},
            "tokenizer": tokenizer,
            "model": {
                "max_len": max_len,
                "embed_dim": width,
                "num_layers": blocks,
                "num_heads": max(4, width // 64),
                **({} if getattr(self.config.model, "standard_parts", False) else ADDITIONS),
                "dropout_rate": dropout_rate,
            },
            "training": {
                "epochs": epochs,
                "steps_per_epoch": per_epoch,
                "max_minutes": self.minutes,
                "batch_size": batch_size,
                "warmup_steps": _warmup(epochs * per_epoch, 20),
                "weight_decay": 1.0 if passes > 4 else 0.1,
                "r_drop": r_drop,
                # The loss may rise until R-Drop begins.
                "early_stopping_patience": 5 if r_drop else 3,
            },
            "sampling": SAMPLES,
        }

    def for_fine_tuning(self) -> Settings:
        """Returns the sections for a model that is already trained: no sizes, and few steps."""
        model, tokenizer = self.source.model.resolved(), self.source.tokenizer
        vocab_size = tokenizer.vocab_size or 50_257
        weights = 12 * model.num_layers * model.embed_dim**2 + vocab_size * model.embed_dim
        tokens = self.training_share * _tokens(self.text, tokenizer.kind, vocab_size)
        bits = self.bits
        if bits and self.config.data.source == "dialogues":
            bits = max(bits, DIALOGUE_BITS)
        training, dropout_rate, trained = settings_for(weights, tokens, model.max_len, bits)
        context, length = self.setting("model.max_len", model.max_len), training["sequence_length"]
        # The positions of a longer context are trained, too.
        chosen = context if context > model.max_len else min(context, length)
        batch_size = max(1, training["batch_size"] * length // chosen)
        length = min(context, self.setting("training.sequence_length", chosen) or context)
        batch_size = self.setting("training.batch_size", batch_size)
        is_fixed = self.is_set("training.sequence_length") or context > model.max_len
        # A turn that is longer is not trained on.
        is_fixed = is_fixed or self.config.data.source == "dialogues"
        length, batch_size = self.filled(tokens / 2, length, batch_size, is_fixed)
        tokens_per_step = batch_size * length
        in_time = PLANNED_SPEED * 60 * self.minutes * self.speed / weights
        steps = min(trained, in_time) / tokens_per_step
        # Reading a token costs a third of learning it. Validations take a fifth of the time at most.
        held_out = self.val_fraction * _tokens(self.text, tokenizer.kind, vocab_size)
        validations = int(0.6 * 60 * self.minutes * self.speed / max(1, weights * held_out))
        epochs = min(10 if steps >= 40 else 5 if steps >= 20 else 3, max(1, validations))
        epochs = self.setting("training.epochs", epochs)
        per_epoch = max(1, round(steps / epochs))
        per_epoch = self.setting("training.steps_per_epoch", per_epoch)
        return {
            "data": {"val_fraction": self.val_fraction},
            "model": {"dropout_rate": dropout_rate} if dropout_rate else {},
            "training": {
                **training,
                "epochs": epochs,
                "max_minutes": self.minutes,
                "steps_per_epoch": per_epoch,
                "batch_size": batch_size,
                "sequence_length": length,
                "warmup_steps": _warmup(epochs * (per_epoch or 20), 10),
                "early_stopping_patience": 3,
            },
            "sampling": SAMPLES,
        }

    def for_pairs(self) -> Settings:
        """Returns the sections for pairs of sentences; an epoch is one pass over the pairs."""
        size = self.text.bytes
        dropout_rate = 0.2 if size < 3_000_000 else 0.1 if size < 20_000_000 else 0.0
        return {
            "tokenizer": self.tokenizer(),
            "model": {"dropout_rate": dropout_rate},
            "training": {"epochs": 10, "max_minutes": self.minutes},
        }

    def tokenizer(self) -> dict[str, Any]:
        """Returns the kind, and the size of the vocabulary if it depends on the text."""
        text = self.text
        has_long = text.bytes > 1.9 * text.characters
        by_character = text.bytes < (LONG_CHARACTERS_BELOW if has_long else CHARACTERS_BELOW)
        kind = self.setting("tokenizer.kind", "character" if by_character else "byte_pair")
        if kind == "character":
            # The vocabulary contains two special tokens: padding and the end token. Bytes are not counted.
            return {"kind": kind, "vocab_size": max(512, text.different_characters + 2)}
        if kind == "byte_pair" and by_character:
            return {"kind": kind, "vocab_size": BytePairConfig.model_fields["vocab_size"].default}
        if kind == "byte_pair":
            largest = 2048 if self.minutes < 6 else 4096
            size = max(512, 2 ** round(math.log2(text.bytes / 500)))
            # Characters may take half of it (`byte_pair.learn_model`); the others are three or four tokens.
            size = max(size, 258 + 2 * text.different_characters)
            return {"kind": kind, "vocab_size": min(largest, size)}
        return {"kind": kind}

    def batch(self, tokens: float) -> tuple[int, int, int]:
        """Returns the length of a training sequence, the context and the sequences in a batch.

        At least this number of `tokens` is available for training.
        """
        size = self.text.bytes
        max_len, batch_size = (64, 8) if self.is_short else (256, 4)
        if size >= LONG_TEXT:
            max_len, batch_size = 512, 4
        if _is_large(size, self.reference_minutes):
            max_len, batch_size = 256, 32
        if self.gpus and size >= LONG_TEXT:
            rows = min(GPU_ROWS * self.gpus, PASSES * tokens / (GPU_UPDATES * max_len))
            batch_size = max(batch_size, 2 ** int(math.log2(max(1, rows))))
        is_dialogues = self.config.data.source == "dialogues"
        if is_dialogues:
            # A turn that is longer is not trained on.
            max_len = max(max_len, 256)
        max_len = self.setting("model.max_len", max_len)
        batch_size = self.setting("training.batch_size", batch_size)
        length = min(self.config.training.sequence_length or max_len, max_len)
        is_fixed = self.is_set("model.max_len") or length < max_len or is_dialogues
        length, batch_size = self.filled(tokens, length, batch_size, is_fixed)
        # With a table of positions, those after `length` would not be trained.
        if not is_fixed or self.config.model.position == "learned":
            max_len = self.setting("model.max_len", length)
        return length, max_len, batch_size

    def filled(
        self, tokens: float, length: int, batch_size: int, is_fixed: bool
    ) -> tuple[int, int]:
        """Halves the batch, then the length unless it is fixed, until a text fills a batch."""
        # What `batches.check_fills_batch` requires.
        while (batch_size + 1) * length - 1 > tokens:
            if batch_size > 1 and not self.is_set("training.batch_size"):
                batch_size //= 2
            elif length > 3 and not is_fixed:
                length //= 2
            else:
                break
        return length, batch_size


def _tokens(text: TextSize, kind: str, vocab_size: int) -> float:
    """Estimates the tokens of a text."""
    if kind == "character":
        return text.characters
    if kind == "word":
        return text.characters / CHARACTERS_PER_WORD
    if kind == "gpt2":
        return text.bytes / BYTES_PER_TOKEN_OF_GPT2
    return text.bytes / (2.0 if vocab_size < 1024 else 3.0)


def _is_large(size: int, minutes: float) -> bool:
    return size >= LARGE_TEXT and minutes >= LARGE_MINUTES


def _model_for(size: int, minutes: float) -> tuple[int, int]:
    """Returns the width and the number of blocks."""
    if size < CHARACTERS_BELOW:
        return 128, 2 if size < 10_000 else 3
    if size < 300_000:
        return 128, 4
    if size < LONG_TEXT:
        return 128 if minutes < 6 else 192, 4
    # Within a given time, a narrow model that sees more tokens learns more than a wide one.
    if not _is_large(size, minutes):
        return 96 if minutes < 2 else 128 if minutes < 6 else 192 if minutes < 20 else 256, 4
    return (384, 6) if minutes < 1000 else (512, 8)


def size_for(size: int, vocab_size: int) -> int:
    """Returns the weights of the model that is chosen for a text of `size` bytes in one minute."""
    width, blocks = _model_for(size, 1)
    return 12 * blocks * width**2 + vocab_size * width


def _warmup(steps: int, most: int) -> int:
    """Returns the updates of the warm-up: a twentieth of all, at least one of ten."""
    return min(most, max(1, steps // 20)) if steps >= 10 else 0
