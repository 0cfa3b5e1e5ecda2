"""A configuration as plain values: what config.toml and the checkpoints hold."""

from typing import Any

import tomli_w

from minigpt.config.schema import SECTIONS, Config
from minigpt.config.section import UNSET

# The number of the schema, which a later version may change.
FORMAT = 2


def config_record(config: Config) -> dict[str, Any]:
    """Returns every setting and the format number as values that TOML and JSON can hold.

    Unset values are "none". `load_config` reads the record back to an equal configuration.
    """
    values = config.model_copy(update={"model": config.model.resolved()}).model_dump()
    return {"format": FORMAT} | {
        section: {key: UNSET if value is None else value for key, value in values[section].items()}
        for section in SECTIONS
    }


def dump_config(config: Config) -> str:
    """Returns a configuration as TOML that `load_config` reads back to an equal one."""
    return tomli_w.dumps(config_record(config))
