"""Settings for tests."""

from typing import Any

from minigpt.config import load_config


def data_config(**settings: Any) -> Any:
    """Returns settings of `[data]`, of the class of their source."""
    # Pairs are accepted only with a model that translates.
    translating = {"model": {"kind": "encoder_decoder", "block": "post_norm"}}
    more = translating if settings.get("source") == "pairs" else {}
    return load_config({"data": settings, **more}).data


def tokenizer_config(**settings: Any) -> Any:
    """Returns settings of `[tokenizer]`, of the class of their kind."""
    return load_config({"tokenizer": settings}).tokenizer


# As the attribute `jit_compile` of a class of step models: none is compiled, whatever it is made with.
NEVER_COMPILED = property(lambda step_model: False, lambda step_model, value: None)
