"""Reads configurations that earlier versions wrote."""

from collections.abc import Mapping
from typing import Any

from minigpt.config.record import FORMAT
from minigpt.config.section import UNSET

# Format 1 had no number and left out unset values. A record in format 1 has at least these settings, which
# could not be unset.
_FORMAT_1 = {
    "data": "source paths val_fraction length_buckets",
    "tokenizer": "kind vocab_size lowercase",
    "model": "kind max_len embed_dim head_dim num_heads value_dim ff_dim num_layers dropout_rate "
    "attention_dropout_rate ff_dropout_rate norm norm_epsilon qkv_bias scale_embeddings position "
    "activation tie_embeddings",
    "training": "epochs plan batch_size accumulate_steps learning_rate schedule warmup_steps optimizer "
    "adam_beta_2 weight_decay label_smoothing keep_checkpoints precision device seed deterministic",
    "sampling": "prompts max_new_tokens temperature top_k top_p min_p repetition_penalty beams "
    "length_penalty stop banned_tokens seed print_every translations",
}
# Settings of [training] that format 1 left out where they were unset. Other sections had such settings
# too; for those, unset is still the default.
_UNSET_IN_FORMAT_1 = (
    "init_from lora_rank sequence_length steps_per_epoch max_minutes clip_norm "
    "early_stopping_patience checkpoint_every_steps checkpoint_every_seconds"
)


def migrate(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a configuration of an earlier format to the current schema.

    A configuration without a number is a record of format 1 if it has every setting that such a record
    has. Otherwise it was written by hand, and what it leaves out has the current defaults.

    Args:
      sections: what a file or a dictionary holds: section name → settings, and perhaps `format`.
    Returns:
      A copy without the format number.
    Raises:
      ValueError: the format is not a number, or belongs to a later version.
    """
    number = sections.get("format", 1)
    if type(number) is not int or number < 1:
        raise ValueError(f"format = {number!r}: should be a number from 1 to {FORMAT}")
    if number > FORMAT:
        raise ValueError(
            f"format = {number}: was written by a later version of minigpt; this version reads formats "
            f"up to {FORMAT}"
        )
    sections = {
        name: dict(settings) if isinstance(settings, Mapping) else settings
        for name, settings in sections.items()
        if name != "format"
    }
    if number > 1:
        return sections
    if _is_record_of_format_1(sections):
        unset = dict.fromkeys(_UNSET_IN_FORMAT_1.split(), UNSET)
        sections["training"] = unset | sections["training"]
        _drop_settings_of_other_variants(sections["data"], sections["tokenizer"])
    training = sections.get("training")
    if isinstance(training, dict) and "plan" in training:
        training["step_limits"] = training.pop("plan")
    return sections


def _is_record_of_format_1(sections: dict[str, Any]) -> bool:
    return set(sections) == set(_FORMAT_1) and all(
        isinstance(sections[name], dict) and sections[name].keys() >= set(keys.split())
        for name, keys in _FORMAT_1.items()
    )


def _drop_settings_of_other_variants(data: dict[str, Any], tokenizer: dict[str, Any]) -> None:
    """Removes settings that every source and kind had in format 1 but that had no effect."""
    if data["source"] not in ("files", "pairs"):
        del data["paths"]
    if data["source"] != "pairs":
        del data["length_buckets"]
    if tokenizer["kind"] == "gpt2":
        del tokenizer["lowercase"]
