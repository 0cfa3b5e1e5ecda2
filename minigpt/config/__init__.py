"""Settings: the schema, its defaults, and how files and overrides are read. Imports no TensorFlow."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minigpt.config.data import (
        SHAKESPEARE_SHA256,
        SHAKESPEARE_URL,
        DataConfig,
        FilesConfig,
        ImdbConfig,
        PairsConfig,
        PythonConfig,
        ShakespeareConfig,
        StoriesConfig,
    )
    from minigpt.config.loading import (
        config_record,
        dump_config,
        load_config,
        sampling_config,
        shipped_configs,
    )
    from minigpt.config.model import EncoderDecoderConfig, GPTConfig, TransformerConfig
    from minigpt.config.sampling import MAX_NEW_TOKENS
    from minigpt.config.schema import SECTIONS, Config, SamplingConfig
    from minigpt.config.tokenizer import (
        BytePairConfig,
        CharacterConfig,
        GPT2Config,
        TokenizerConfig,
        WordConfig,
    )
    from minigpt.config.training import TrainingConfig

# Those that import the others last.
_MODULES = ("sampling", "data", "model", "tokenizer", "training", "schema", "loading")

__all__ = [
    "MAX_NEW_TOKENS",
    "SECTIONS",
    "SHAKESPEARE_SHA256",
    "SHAKESPEARE_URL",
    "BytePairConfig",
    "CharacterConfig",
    "Config",
    "DataConfig",
    "EncoderDecoderConfig",
    "FilesConfig",
    "GPT2Config",
    "GPTConfig",
    "ImdbConfig",
    "PairsConfig",
    "PythonConfig",
    "SamplingConfig",
    "ShakespeareConfig",
    "StoriesConfig",
    "TokenizerConfig",
    "TrainingConfig",
    "TransformerConfig",
    "WordConfig",
    "config_record",
    "dump_config",
    "load_config",
    "sampling_config",
    "shipped_configs",
]


def __getattr__(name: str) -> Any:
    # Portable files need the table of sampling settings, without the time that pydantic takes.
    if name not in __all__:
        raise AttributeError(f"module 'minigpt.config' has no attribute {name!r}")
    for module in _MODULES:
        found = importlib.import_module(f"minigpt.config.{module}")
        if hasattr(found, name):
            value = globals()[name] = getattr(found, name)
            return value
    raise AssertionError(f"{name} is in no module of minigpt.config")
