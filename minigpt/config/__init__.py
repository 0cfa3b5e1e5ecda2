"""Settings: the schema, its defaults, and how files and overrides are read. Imports no TensorFlow."""

from minigpt.config.data import SHAKESPEARE_SHA256, SHAKESPEARE_URL, TAKES_PATHS, DataConfig
from minigpt.config.loading import dump_config, load_config, shipped_configs
from minigpt.config.model import EncoderDecoderConfig, GPTConfig, TransformerConfig
from minigpt.config.sampling import MOST_NEW_TOKENS, SamplingConfig
from minigpt.config.schema import SECTIONS, Config
from minigpt.config.tokenizer import TokenizerConfig
from minigpt.config.training import TrainingConfig

__all__ = [
    "MOST_NEW_TOKENS",
    "SECTIONS",
    "SHAKESPEARE_SHA256",
    "SHAKESPEARE_URL",
    "TAKES_PATHS",
    "Config",
    "DataConfig",
    "EncoderDecoderConfig",
    "GPTConfig",
    "SamplingConfig",
    "TokenizerConfig",
    "TrainingConfig",
    "TransformerConfig",
    "dump_config",
    "load_config",
    "shipped_configs",
]
