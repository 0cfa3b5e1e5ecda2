"""Reads configurations that earlier versions wrote."""

from collections.abc import Mapping
from typing import Any

from minigpt.config.model import rename_norm
from minigpt.config.record import FORMAT
from minigpt.config.section import UNSET
from minigpt.config.tokenizer import GPT2_VOCAB_SIZE

# Settings of format 1 and their defaults, by their current names. Format 1 had no number and left out unset
# values. It wrote all other settings of this table, for every source and kind. Settings that are unset by
# default in all formats are not in the table.
DEFAULTS_OF_FORMAT_1: dict[str, dict[str, Any]] = {
    "data": {"source": "stories", "paths": [], "val_fraction": 0.1, "length_buckets": 4},
    "tokenizer": {"kind": "byte_pair", "vocab_size": 2048, "lowercase": False},
    "model": {
        "kind": "gpt",
        "max_len": 128,
        "embed_dim": 192,
        "num_heads": 4,
        "num_layers": 4,
        "dropout_rate": 0.0,
        "attention_dropout_rate": 0.0,
        "ff_dropout_rate": 0.0,
        "block": "pre_norm",
        "norm_epsilon": 1e-6,
        "qkv_bias": True,
        "scale_embeddings": False,
        "position": "learned",
        "activation": "gelu_tanh",
        "tie_embeddings": True,
    },
    "training": {
        "epochs": 5,
        # Left out where they were unset; the current defaults have values.
        "steps_per_epoch": UNSET,
        "max_minutes": UNSET,
        "sequence_length": UNSET,
        "clip_norm": UNSET,
        "step_limits": [],
        "batch_size": 32,
        "accumulate_steps": 1,
        "learning_rate": 1e-3,
        "schedule": "cosine",
        "warmup_steps": 0,
        "optimizer": "adamw",
        "adam_beta_2": 0.999,
        "weight_decay": 0.0,
        "label_smoothing": 0.0,
        "checkpoint_every_seconds": 120.0,
        "keep_checkpoints": 2,
        "precision": "float32",
        "device": "auto",
        "seed": 0,
        "deterministic": False,
    },
    "sampling": {
        "prompts": [""],
        "max_new_tokens": 40,
        "temperature": 1.0,
        "top_k": 10,
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "beams": 1,
        "length_penalty": 1.0,
        "stop": [],
        "banned_tokens": [],
        "seed": 0,
        "print_every": 1,
        "translations": 5,
    },
}
_RENAMED = {("training", "plan"): "step_limits", ("model", "norm"): "block"}


def current_name(section: str, key: str) -> str:
    """Returns the current name of a setting that may have been renamed."""
    return _RENAMED.get((section, key), key)


def migrate(sections: Mapping[str, Any], is_record: bool = False) -> dict[str, Any]:
    """Converts a configuration of an earlier format to the current schema.

    A record is a configuration that a run wrote. In a record of format 1, absent settings have the
    defaults of format 1. In other configurations they have the current defaults. Without a format number, a
    configuration that may have been written by hand is a record of format 1 if it has more than half of
    the settings that format 1 always wrote, in each of the five sections.

    Args:
      sections: what a file or a dictionary holds: section name → settings, and perhaps `format`.
      is_record: whether the configuration is known to be a record.
    Returns:
      A copy without the format number.
    Raises:
      ValueError: the format is not a number or belongs to a later version, or a setting and its former
        name contradict each other.
    """
    number = sections.get("format", 1)
    if type(number) is not int or number < 1:
        raise ValueError(f"format = {number!r}: should be a number from 1 to {FORMAT}")
    if number > FORMAT:
        raise ValueError(
            f"format = {number}: was written by a later version of minigpt; this version reads formats "
            f"up to {FORMAT}"
        )
    is_record = is_record or "format" in sections or _looks_like_a_record(sections)
    sections = {
        name: dict(settings) if isinstance(settings, Mapping) else settings
        for name, settings in sections.items()
        if name != "format"
    }
    if isinstance(model := sections.get("model"), dict):
        sections["model"] = rename_norm(model)
    if number > 1:
        return sections
    if isinstance(training := sections.get("training"), dict) and "plan" in training:
        training["step_limits"] = training.pop("plan")
    if is_record:
        _complete_record(sections)
    return sections


def _looks_like_a_record(sections: Mapping[str, Any]) -> bool:
    """Returns whether a configuration without a number has more than half of what format 1 wrote."""
    for section, defaults in DEFAULTS_OF_FORMAT_1.items():
        settings = sections.get(section)
        # Format 1 did not have this name: the settings are from a later version.
        if not isinstance(settings, Mapping) or "step_limits" in settings:
            return False
        written = {key for key, default in defaults.items() if default != UNSET}
        found = {current_name(section, key) for key in settings}
        if 2 * len(found & written) <= len(written):
            return False
    return True


def _complete_record(sections: dict[str, Any]) -> None:
    """Adds the absent settings, and removes those that had no effect for the source or the kind."""
    for name in DEFAULTS_OF_FORMAT_1:
        sections.setdefault(name, {})
    data, tokenizer, model = (sections[name] for name in ("data", "tokenizer", "model"))
    # GPT-2 had its own default vocabulary size, and an encoder-decoder only one block.
    if isinstance(tokenizer, dict) and tokenizer.get("kind") == "gpt2":
        tokenizer.setdefault("vocab_size", GPT2_VOCAB_SIZE)
    if isinstance(model, dict) and model.get("kind") == "encoder_decoder":
        model.setdefault("block", "post_norm")
    for name, defaults in DEFAULTS_OF_FORMAT_1.items():
        if isinstance(settings := sections[name], dict):
            settings.update({key: defaults[key] for key in defaults.keys() - settings.keys()})
    # With another value, these two were refused, and still are.
    if isinstance(data, dict) and data["source"] not in ("files", "pairs") and not data["paths"]:
        del data["paths"]
    if isinstance(tokenizer, dict) and tokenizer["kind"] == "gpt2" and not tokenizer["lowercase"]:
        del tokenizer["lowercase"]
    if isinstance(data, dict) and data["source"] != "pairs":
        del data["length_buckets"]
