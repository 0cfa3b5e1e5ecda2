"""Settings: the schema, its defaults, and how files and overrides are read. Imports no TensorFlow."""

from minigpt.config.schema import (
    MOST_NEW_TOKENS,
    SECTIONS,
    SHAKESPEARE_SHA256,
    SHAKESPEARE_URL,
    TAKES_PATHS,
    Config,
    DataConfig,
    ModelConfig,
    SamplingConfig,
    TokenizerConfig,
    TrainingConfig,
    dump_config,
    load_config,
    shipped_configs,
)

__all__ = [
    "MOST_NEW_TOKENS",
    "SECTIONS",
    "SHAKESPEARE_SHA256",
    "SHAKESPEARE_URL",
    "TAKES_PATHS",
    "Config",
    "DataConfig",
    "ModelConfig",
    "SamplingConfig",
    "TokenizerConfig",
    "TrainingConfig",
    "dump_config",
    "load_config",
    "shipped_configs",
]
