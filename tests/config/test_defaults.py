"""One set of defaults, in Python, TOML and overrides alike; the shipped configurations keep theirs."""

import json
from pathlib import Path
from typing import Any

import pytest

from minigpt.config import Config, load_config, shipped_configs
from minigpt.config.fit import settings_to_fit

# Settings as the last version without a format number resolved them: name → section.key → value.
SETTINGS = json.loads(
    (Path(__file__).resolve().parents[1] / "fixtures" / "settings.json").read_text()
)
# Settings that belonged to every source and kind, and now to those where they have an effect.
MOVED = {"data.paths", "data.length_buckets", "tokenizer.lowercase"}
BLOCKS = {"post": "post_norm", "pre": "pre_norm"}


def flat(config: Config) -> dict[str, Any]:
    """section.key → value"""
    return {
        f"{section}.{key}": value
        for section, settings in config.model_dump(mode="json").items()
        for key, value in settings.items()
    }


def defaults(config: Config) -> dict[str, Any]:
    """section.key → its default, for the block and the variants of a configuration."""
    model = type(config.model)(block=config.model.block)
    return {
        f"{section}.{name}": field.get_default(call_default_factory=True)
        for section, settings in config
        for name, field in type(settings).model_fields.items()
    } | {f"model.{name}": value for name, value in model.model_dump(mode="json").items()}


def as_now(settings: dict[str, Any], config: Config) -> dict[str, Any]:
    """Settings of the earlier version under their present names, and those added since by default."""
    found = flat(config)
    renamed = defaults(config) | settings | {"model.block": BLOCKS[settings["model.norm"]]}
    renamed["training.step_limits"] = renamed.pop("training.plan")
    del renamed["model.norm"]
    return {
        name: value
        for name, value in renamed.items()
        if name in found or not (value is None or name in MOVED)
    }


# The configurations whose recipe has been measured anew.
NEW_RECIPES = {"default", "gpt2_124m_scratch", "imdb", "python", "shakespeare_character"}
NEW_CONFIGURATIONS = {"dialogues", "translate_eng_deu", "vaswani_base"}
RENAMED = {"vaswani_eng_deu": "translate_eng_deu"}


@pytest.mark.parametrize(
    "name", sorted(shipped_configs().keys() - NEW_RECIPES - NEW_CONFIGURATIONS)
)
def test_shipped_configurations_resolve_as_before(name):
    config = load_config(name)
    assert flat(config) == as_now(SETTINGS["shipped"][RENAMED.get(name, name)], config)
    assert settings_to_fit(config) == set()


@pytest.mark.parametrize("name", sorted(NEW_RECIPES))
def test_the_block_of_gpt_2_brings_the_former_model_back(name):
    changed = {
        "default": ["model.max_len=128", "model.embed_dim=192"],
        "python": ["model.max_len=128", "model.embed_dim=192"],
        "shakespeare_character": ["model.max_len=64"],
    }
    additions = ["model.value_residual=false", "model.convolution=0", "model.ngrams=[]"]
    config = load_config(name, ["model.block=pre_norm", *additions, *changed.get(name, [])])
    former = as_now(SETTINGS["shipped"][name], config)
    model = {key: value for key, value in former.items() if key.startswith("model.")}
    assert {key: value for key, value in flat(config).items() if key in model} == model
    assert settings_to_fit(config) == set()


def test_a_partial_configuration_is_the_default_one_without_additions(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[training]\nepochs = 1\n")
    expected = flat(Config()) | {"training.epochs": 1}
    for config in (
        load_config({"training": {"epochs": 1}}),
        load_config(file),
        load_config(None, ["training.epochs=1"]),
        load_config(
            "default",
            ["training.epochs=1", "model.value_residual=false", "model.convolution=0"],
        ),
        Config.model_validate({"training": {"epochs": 1}}),
    ):
        assert flat(config) == expected


def test_what_suits_the_stories_only_is_not_a_default_of_other_texts():
    config = load_config({"data": {"source": "python"}})
    assert config.training.steps_per_epoch is config.training.max_minutes is None
    assert (config.sampling.prompts, config.sampling.temperature) == ([""], 1.0)
    # The recipe is.
    assert (config.training.optimizer, config.training.learning_rate) == ("muon", 4e-3)
    assert settings_to_fit(config) >= {"model.embed_dim", "training.steps_per_epoch"}
