"""What training starts from, a base, a run or nothing; and how it goes on from a model that exists."""

from pathlib import Path
from typing import Any

from minigpt.config.schema import Config
from minigpt.errors import UserError
from minigpt.runs.layout import bases

# The value of training.init_from that starts from a base if it helps.
AUTO = "auto"
# Settings of [model] that may differ from those of the run that training starts from: they affect training
# only, or only set other settings.
OWN_SETTINGS = {
    *("dropout_rate", "attention_dropout_rate", "ff_dropout_rate", "ngram_dropout_rate"),
    "standard_parts",
}
_WEIGHTS, _RATE = 5e6, 6e-4
# Passes over the text, and the least updates.
_PASSES, _LEAST_STEPS = 5, 40
# Models of more weights, such as GPT-2, are trained with AdamW, for few steps with short sequences, so that
# two cores complete a useful number of them.
_LARGE = 30e6


def base_helps(base: float, ngram: float, size: int, minutes: float) -> bool:
    """Returns whether a text should be learned from a base.

    Args:
      base, ngram: bits per byte that the base and a 7-gram of the text itself need for a part of the text.
      size: bytes of the text.
      minutes: the time limit.
    """
    return base < ngram


def settings_for(weights: float, tokens: float, max_len: int) -> tuple[dict[str, Any], float, int]:
    """Returns the recipe for a model and a text.

    The learning rate falls with the root of the number of weights, to the usual 1e-4 of GPT-2.

    Args:
      weights: that are multiplied.
      tokens: those of the training text.
      max_len: the context of the model.
    Returns:
      settings of [training], the dropout rate, and the number of updates.
    """
    rate = float(f"{_RATE * (_WEIGHTS / weights) ** 0.5:.1g}")
    if weights >= _LARGE:
        batch = {"batch_size": 4, "sequence_length": 128}
        adam = {"optimizer": "adamw", "adam_beta_2": 0.999, "weight_decay": 0.01}
        return {**batch, **adam, "learning_rate": rate}, 0.0, 200
    batch = {"batch_size": 8 if tokens > 10_000 else 4, "sequence_length": min(256, max_len)}
    steps = _PASSES * tokens / (batch["batch_size"] * batch["sequence_length"])
    muon = {"optimizer": "muon", "adam_beta_2": 0.99, "weight_decay": 0.1}
    return {**batch, **muon, "learning_rate": rate}, 0.1, max(_LEAST_STEPS, round(steps))


def why_from_nothing(config: Config, name: str | None, source: Config | None) -> str | None:
    """Returns why settings exclude the base with a name and its settings; None if they do not."""
    reasons = {
        "pairs": "a base continues text, and does not translate pairs",
        "ids": "token ids were given, and a base has a tokenizer of its own",
        "stories": "the bundled stories are learned from nothing",
    }
    if reason := reasons.get(config.data.source):
        return reason
    if name is None or source is None:
        return "no base is installed"
    for setting, value, expected in _contradictions(source, config):
        return f'{setting} = {value!r} was given, and the base "{name}" has {expected!r}'
    return None


def _contradictions(source: Config, config: Config) -> list[tuple[str, Any, Any]]:
    """Returns the given settings that a run has with another value: name, value, that of the run."""
    found = []
    pairs: list[tuple[str, Any, Any]] = [
        ("model", config.model, source.model.resolved()),
        ("tokenizer", config.tokenizer, source.tokenizer),
    ]
    for section, requested, existing in pairs:
        for name in requested.model_dump(exclude_none=True, exclude_unset=True):
            value, expected = getattr(requested, name), getattr(existing, name, None)
            if name not in OWN_SETTINGS and value != expected:
                found.append((f"{section}.{name}", value, expected))
    return found


def with_sizes_of(source: Config, config: Config) -> Config:
    """Returns settings with the sizes and the tokenizer of the run that training starts from.

    Raises:
      UserError: a setting contradicts the run; one line each.
    """
    training, model = config.training, source.model.resolved()
    init_from = f"training.init_from = {training.init_from!r}"
    if kinds := [kind for kind in (model.kind, config.model.kind) if kind != "gpt"]:
        raise UserError(
            f"{init_from}: model.kind = {kinds[0]!r} cannot be fine-tuned; should be a run of kind 'gpt', "
            "trained on text"
        )
    if problems := [
        f"{name} = {value!r}: {init_from} has {expected!r}; should be equal or left out"
        for name, value, expected in _contradictions(source, config)
    ]:
        raise UserError(*problems)
    own = OWN_SETTINGS & config.model.model_fields_set
    model = model.model_copy(update={name: getattr(config.model, name) for name in own})
    if training.init_from not in bases():
        config = config.with_training(init_from=str(Path(training.init_from or "").absolute()))
    return config.model_copy(update={"model": model, "tokenizer": source.tokenizer})
