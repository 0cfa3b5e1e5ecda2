"""Settings that suit the size of a text and the time limit."""

import math
from typing import Any

from minigpt.config.loading import load_config
from minigpt.config.record import FORMAT
from minigpt.config.schema import Config

Settings = dict[str, dict[str, Any]]

AGAINST_MEMORIZATION = ("weight_decay", "early_stopping_patience")
# The time limit if none is set.
MAX_MINUTES = 10.0
# Texts with fewer bytes are learned character by character.
CHARACTERS_BELOW = 60_000
# Passes over the text after which the held-out loss was lowest, with the dropout rate chosen here.
PASSES = 12
# Bytes held out at most. Evaluating them takes one to two seconds.
MAX_HELD_OUT = 200_000
# Speed of training on two cores with AVX-512, in weights times tokens. On a slower machine, `max_minutes`
# shortens training.
WEIGHT_TOKENS_PER_SECOND = 22e9


def settings_to_fit(config: Config) -> set[str]:
    """Returns the settings that should be chosen for the text because the user has not set them.

    Nothing is chosen for the bundled stories: the defaults are made for them.

    Returns:
      Names such as "training.epochs".
    """
    if config.data.source == "stories":
        return set()
    return {
        f"{section}.{key}"
        for section, settings in _unset_settings(config, 0, 0).items()
        for key in settings
    }


def fitted(config: Config, size: int, characters: int) -> tuple[Config, Settings]:
    """Fills in what the user has not set.

    Args:
      config: the settings of the user.
      size: bytes of the text.
      characters: number of different characters; needed for fewer than `CHARACTERS_BELOW` bytes.
    Returns:
      The complete settings, and those that were chosen here.
    Raises:
      UserError: if settings of the user are incompatible with the chosen ones.
    """
    given = config.model_dump(exclude_unset=True)
    chosen = _unset_settings(config, size, characters)
    sections = {name: chosen.get(name, {}) | given.get(name, {}) for name in chosen | given}
    return load_config({"format": FORMAT} | sections), chosen


def _unset_settings(config: Config, size: int, characters: int) -> Settings:
    """Returns the settings for the text that the user has not set."""
    chosen = {
        name: {
            key: value
            for key, value in settings.items()
            if key not in getattr(config, name).model_fields_set
        }
        for name, settings in _settings_for(config, size, characters).items()
    }
    if config.training.init_from is None and "steps_per_epoch" not in chosen["training"]:
        # These suit the number of steps chosen here. A user who sets it gets the defaults.
        for key in AGAINST_MEMORIZATION:
            chosen["training"].pop(key, None)
    return chosen


def _settings_for(config: Config, size: int, characters: int) -> Settings:
    minutes = config.training.max_minutes or MAX_MINUTES
    settings = settings_for_size(size, characters, minutes)
    if config.data.source == "pairs":
        return settings_for_pairs(settings, size)
    if config.tokenizer.kind == "gpt2":
        # The size of the published vocabulary is fixed.
        settings["tokenizer"] = {}
    if config.training.init_from is not None:
        return settings_for_fine_tuning(settings)
    return settings


def settings_for_size(size: int, characters: int, minutes: float) -> Settings:
    """Returns sections of a configuration for a text of `size` bytes and a time limit.

    The values are the best of those measured with prose, code and Russian (EXPERIMENTS.md); lengths and
    times in between were not measured. The length limits what can be learned from a short text: it gets a
    small model and `PASSES` passes, with dropout and a high weight decay, and training stops when the
    held-out loss rises. The time limits what can be learned from a long one: the more time, the wider the
    model.
    """
    if size < CHARACTERS_BELOW:
        # The vocabulary contains two special tokens: padding and the end token. Bytes are not counted.
        kind, vocab_size, bytes_per_token = "character", max(512, characters + 2), 1.0
    else:
        largest = 2048 if minutes < 6 else 4096
        kind, vocab_size = "byte_pair", min(largest, max(512, 2 ** round(math.log2(size / 500))))
        bytes_per_token = 2.0 if vocab_size < 1024 else 3.0
    embed_dim, num_layers = _model_for(size, minutes)
    max_len, batch_size = (64, 8) if size < CHARACTERS_BELOW else (128, 16)
    val_fraction = max(1e-6, round(min(0.1, MAX_HELD_OUT / size), 6)) if size else 0.1
    text_tokens = (1 - val_fraction) * size / bytes_per_token
    weights = 12 * num_layers * embed_dim**2 + vocab_size * embed_dim
    trained = min(PASSES * text_tokens, 60 * minutes * WEIGHT_TOKENS_PER_SECOND / weights)
    epochs = 5 if minutes < 5 else 10
    # At least ten updates.
    steps_per_epoch = max(10 // epochs, round(trained / (max_len * batch_size * epochs)))
    passes = trained / max(1.0, text_tokens)
    return {
        "data": {"val_fraction": val_fraction},
        "tokenizer": {"kind": kind, "vocab_size": vocab_size},
        "model": {
            "max_len": max_len,
            "embed_dim": embed_dim,
            "num_layers": num_layers,
            "num_heads": 4,
            "dropout_rate": 0.2 if passes > 4 else 0.1 if passes > 2 else 0.0,
        },
        "training": {
            "epochs": epochs,
            "steps_per_epoch": steps_per_epoch,
            "max_minutes": minutes,
            "batch_size": batch_size,
            "warmup_steps": min(20, max(1, epochs * steps_per_epoch // 20)),
            "weight_decay": 1.0 if passes > 4 else 0.1,
            "early_stopping_patience": 3,
        },
        "sampling": {"max_new_tokens": 100 if bytes_per_token == 1 else 60},
    }


def _model_for(size: int, minutes: float) -> tuple[int, int]:
    """Returns the width and the number of blocks."""
    if size < CHARACTERS_BELOW:
        return 128, 2 if size < 10_000 else 3
    if size < 300_000:
        return 128, 4
    if size < 1_000_000:
        return 128 if minutes < 2 else 192, 4
    # Within a given time, a narrow model that sees more tokens learns more than a wide one.
    return 96 if minutes < 2 else 128 if minutes < 6 else 192 if minutes < 20 else 256, 4


def settings_for_fine_tuning(settings: Settings) -> Settings:
    """Returns the sections for a model that is already trained: no sizes, few and short sequences.

    Published models are large. These settings let two cores complete a useful number of steps.
    """
    return {
        "data": settings["data"],
        "training": {
            "epochs": 10,
            "max_minutes": settings["training"]["max_minutes"],
            "steps_per_epoch": 20,
            "batch_size": 4,
            "sequence_length": 128,
            "optimizer": "adamw",
            "adam_beta_2": 0.999,
            "learning_rate": 1e-4,
            "warmup_steps": 10,
            "weight_decay": 0.01,
        },
        "sampling": settings["sampling"],
    }


def settings_for_pairs(settings: Settings, size: int) -> Settings:
    """Returns the sections for pairs of sentences; an epoch is one pass over the pairs."""
    dropout_rate = 0.2 if size < 3_000_000 else 0.1 if size < 20_000_000 else 0.0
    return {
        "tokenizer": settings["tokenizer"],
        "model": {"dropout_rate": dropout_rate},
        "training": {"epochs": 10, "max_minutes": settings["training"]["max_minutes"]},
    }
