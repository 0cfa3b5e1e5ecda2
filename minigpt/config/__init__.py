"""Settings: the schema, its defaults, and how files and overrides are read. Imports no TensorFlow."""

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
from minigpt.config.sampling import MAX_NEW_TOKENS, SamplingConfig
from minigpt.config.schema import SECTIONS, Config
from minigpt.config.tokenizer import (
    BytePairConfig,
    CharacterConfig,
    GPT2Config,
    TokenizerConfig,
    WordConfig,
)
from minigpt.config.training import TrainingConfig

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
