"""Settings: the schema, its defaults, and how files and overrides are read. Imports no TensorFlow."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # An alias marks a name as public for type checkers.
    from minigpt.config.data import DataConfig as DataConfig
    from minigpt.config.data import DatasetsConfig as DatasetsConfig
    from minigpt.config.data import DialoguesConfig as DialoguesConfig
    from minigpt.config.data import FilesConfig as FilesConfig
    from minigpt.config.data import IdsConfig as IdsConfig
    from minigpt.config.data import ImdbConfig as ImdbConfig
    from minigpt.config.data import PairsConfig as PairsConfig
    from minigpt.config.data import PythonConfig as PythonConfig
    from minigpt.config.data import ShakespeareConfig as ShakespeareConfig
    from minigpt.config.loading import config_record as config_record
    from minigpt.config.loading import dump_config as dump_config
    from minigpt.config.loading import load_config as load_config
    from minigpt.config.loading import shipped_configs as shipped_configs
    from minigpt.config.model import EncoderDecoderConfig as EncoderDecoderConfig
    from minigpt.config.model import GPTConfig as GPTConfig
    from minigpt.config.model import TransformerConfig as TransformerConfig
    from minigpt.config.sampling import MAX_NEW_TOKENS as MAX_NEW_TOKENS
    from minigpt.config.schema import SECTIONS as SECTIONS
    from minigpt.config.schema import Config as Config
    from minigpt.config.schema import SamplingConfig as SamplingConfig
    from minigpt.config.tokenizer import GivenConfig as GivenConfig
    from minigpt.config.tokenizer import GPT2Config as GPT2Config
    from minigpt.config.tokenizer import LearnedConfig as LearnedConfig
    from minigpt.config.tokenizer import TokenizerConfig as TokenizerConfig
    from minigpt.config.training import TrainingConfig as TrainingConfig


def __getattr__(name: str) -> Any:
    # Portable files need the table of sampling settings, without the time that pydantic takes.
    # Those that import the others last.
    for module in ("sampling", "data", "model", "tokenizer", "training", "schema", "loading"):
        found = importlib.import_module(f"minigpt.config.{module}")
        if name in vars(found):
            value = globals()[name] = vars(found)[name]
            return value
    raise AttributeError(f"module 'minigpt.config' has no attribute {name!r}")
