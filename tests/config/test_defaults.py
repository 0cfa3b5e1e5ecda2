"""One set of defaults, in Python, TOML and overrides alike; the shipped configurations keep theirs."""

import json
from pathlib import Path

import pytest

from minigpt.config import Config, load_config, shipped_configs
from minigpt.config.complete import settings_to_choose

# The defaults of commit fbd710fe, and for each shipped configuration what differs from them.
SETTINGS = json.loads(
    (Path(__file__).resolve().parents[1] / "fixtures" / "settings.json").read_text()
)


def test_defaults_resolve_as_before():
    assert Config().settings("json") == SETTINGS["defaults"]


@pytest.mark.parametrize("name", SETTINGS["shipped"])
def test_shipped_configurations_resolve_as_before(name):
    config = load_config(name)
    found = config.settings("json")
    assert SETTINGS["shipped"][name] == {
        setting: value
        for setting, value in found.items()
        if setting not in SETTINGS["defaults"] or value != SETTINGS["defaults"][setting]
    }


@pytest.mark.parametrize("name", shipped_configs())
def test_nothing_is_chosen_for_shipped_configurations(name):
    assert settings_to_choose(load_config(name)) == set()


def test_a_partial_configuration_is_the_default_one_without_additions(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[training]\nepochs = 1\n")
    expected = Config().settings() | {"training.epochs": 1}
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
        assert config.settings() == expected


def test_what_suits_the_stories_only_is_not_a_default_of_other_texts():
    config = load_config({"data": {"source": "python"}})
    assert config.training.steps_per_epoch is config.training.max_minutes is None
    assert (config.sampling.prompts, config.sampling.temperature) == ([""], 1.0)
    # The recipe is.
    assert (config.training.optimizer, config.training.learning_rate) == ("muon", 4e-3)
    assert settings_to_choose(config) >= {"model.embed_dim", "training.steps_per_epoch"}
