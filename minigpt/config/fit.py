"""Settings that suit a text of a given size. With them, training takes about ten minutes on two cores."""

from typing import Any

from minigpt.config.loading import load_config
from minigpt.config.record import FORMAT
from minigpt.config.schema import Config

Settings = dict[str, dict[str, Any]]

MAX_MINUTES = 10.0
# Texts with fewer bytes are learned character by character.
CHARACTERS_BELOW = 300_000


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
    return {
        name: {
            key: value
            for key, value in settings.items()
            if key not in getattr(config, name).model_fields_set
        }
        for name, settings in _settings_for(config, size, characters).items()
    }


def _settings_for(config: Config, size: int, characters: int) -> Settings:
    settings = settings_for_size(size, characters)
    if config.data.source == "pairs":
        return settings_for_pairs(settings)
    if config.tokenizer.kind == "gpt2":
        # The size of the published vocabulary is fixed.
        settings["tokenizer"] = {}
    if config.training.init_from is not None:
        return settings_for_fine_tuning(settings)
    return settings


def settings_for_size(size: int, characters: int) -> Settings:
    """Returns sections of a configuration for a text of `size` bytes.

    A short text gets characters, a small model, many passes, and dropout against memorization. A longer
    text gets byte pairs, longer sequences, a larger model and fewer passes.
    """
    if size < CHARACTERS_BELOW:
        embed_dim, num_layers = (
            (64, 2) if size < 30_000 else (96, 3) if size < 100_000 else (128, 4)
        )
        max_len, batch_size = (64, 8) if size < 30_000 else (128, 32)
        # The vocabulary contains two special tokens: padding and the end token. Bytes are not counted.
        tokenizer = {"kind": "character", "vocab_size": max(512, characters + 2)}
        dropout_rate, bytes_per_token = 0.2, 1.0
    else:
        vocab_size = min(8192, max(512, 2 ** round(size / 1000 - 1).bit_length()))
        tokenizer = {"kind": "byte_pair", "vocab_size": vocab_size}
        max_len, embed_dim, num_layers = (256, 256, 4) if size >= 20_000_000 else (128, 192, 4)
        dropout_rate = 0.2 if size < 3_000_000 else 0.1 if size < 20_000_000 else 0.0
        batch_size, bytes_per_token = 32, 3.0
    tokens = 0.9 * size / bytes_per_token
    # At most 30 passes over the text, and ten epochs of at least one step each.
    steps = max(10, min(3000, int(30 * tokens / (max_len * batch_size))))
    return {
        "data": {"val_fraction": 0.1 if size < 10_000_000 else round(1e6 / size, 6)},
        "tokenizer": tokenizer,
        "model": {
            "max_len": max_len,
            "embed_dim": embed_dim,
            "num_layers": num_layers,
            "num_heads": 4,
            "dropout_rate": dropout_rate,
        },
        "training": {
            "epochs": 10,
            "steps_per_epoch": max(1, steps // 10),
            "max_minutes": MAX_MINUTES,
            "batch_size": batch_size,
            "warmup_steps": max(1, steps // 20),
        },
        "sampling": {"max_new_tokens": 100 if bytes_per_token == 1 else 60},
    }


def settings_for_fine_tuning(settings: Settings) -> Settings:
    """Returns the sections for a model that is already trained: no sizes, few and short sequences.

    Published models are large. These settings let two cores complete a useful number of steps.
    """
    return {
        "data": settings["data"],
        "training": {
            "epochs": settings["training"]["epochs"],
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


def settings_for_pairs(settings: Settings) -> Settings:
    """Returns the sections for pairs of sentences; an epoch is one pass over the pairs."""
    return {
        "tokenizer": settings["tokenizer"],
        "model": {"dropout_rate": settings["model"]["dropout_rate"]},
        "training": {
            "epochs": settings["training"]["epochs"],
            "max_minutes": settings["training"]["max_minutes"],
        },
    }
