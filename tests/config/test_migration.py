"""Configurations of other format numbers; tests/compatibility reads whole runs."""

import tomllib
from pathlib import Path

import pytest
import tomli_w

from minigpt.config import GPTConfig, dump_config, load_config, load_record, shipped_configs
from minigpt.errors import UserError
from minigpt.models.layers.arguments import split_settings
from minigpt.runs.run import Run

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "compatibility"
# The defaults of format 1 that matter here, as its schema had them.
FORMER_DEFAULTS = {
    "data": {"source": "stories", "paths": [], "val_fraction": 0.1, "length_buckets": 4},
    "tokenizer": {"kind": "byte_pair", "vocab_size": 2048, "lowercase": False},
    "model": {"kind": "gpt", "max_len": 128, "norm": "pre", "position": "learned"}
    | {"activation": "gelu_tanh", "dropout_rate": 0.0, "scale_embeddings": False},
    "training": {"epochs": 5, "plan": [], "batch_size": 32, "learning_rate": 1e-3}
    | {"warmup_steps": 0, "optimizer": "adamw", "adam_beta_2": 0.999, "weight_decay": 0.0}
    | {"checkpoint_every_seconds": 120.0, "keep_checkpoints": 2, "seed": 0},
    "sampling": {"prompts": [""], "max_new_tokens": 40, "temperature": 1.0, "translations": 5},
}


def record_of_format_1(name: str = "character") -> dict:
    """Returns the configuration of a run that the earlier version wrote."""
    return tomllib.loads((FIXTURES / name / "config.toml").read_text())


def test_a_record_without_a_number_keeps_its_unset_values():
    record = record_of_format_1()
    del record["training"]["steps_per_epoch"]
    record["training"]["plan"] = [[3, 7]]
    config = load_config(record)
    training = config.training
    assert training.clip_norm is training.max_minutes is training.steps_per_epoch is None
    assert training.step_limits == [[3, 7]]


@pytest.mark.parametrize("name", ["character", "pairs", "imported", "lora"])
def test_a_setting_missing_from_a_record_has_the_former_default(name, tmp_path):
    """As the configuration of a run, as a file for `--config`, and as a dictionary."""
    complete = load_config(record_of_format_1(name))
    (tmp_path / "tokenizer").mkdir()
    file = tmp_path / "config.toml"
    compared = set()
    for section, settings in record_of_format_1(name).items():
        for key, value in settings.items():
            if FORMER_DEFAULTS[section].get(key, "no default") != value:
                continue
            record = record_of_format_1(name)
            del record[section][key]
            file.write_text(tomli_w.dumps(record))
            assert Run(tmp_path).config == complete, f"{section}.{key}"
            assert load_config(file) == complete, f"{section}.{key}"
            assert load_config(record) == complete, f"{section}.{key}"
            compared.add(f"{section}.{key}")
    assert {"training.optimizer", "training.plan", "data.val_fraction"} <= compared


def test_the_former_default_applies_to_a_setting_that_had_another_value(tmp_path):
    (tmp_path / "tokenizer").mkdir()
    for section, defaults in FORMER_DEFAULTS.items():
        for key, default in defaults.items():
            # The record's own vocabulary is too small for byte pairs; the others are renamed or required.
            if key in ("kind", "source", "paths", "length_buckets", "plan"):
                continue
            record = record_of_format_1()
            del record[section][key]
            (tmp_path / "config.toml").write_text(tomli_w.dumps(record))
            found = Run(tmp_path).config.model_dump()[section]["block" if key == "norm" else key]
            assert found == ("pre_norm" if key == "norm" else default), f"{section}.{key}"


def test_a_record_of_a_run_may_lack_most_settings(tmp_path):
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "config.toml").write_text("[model]\nembed_dim = 8\n")
    config = Run(tmp_path).config
    assert (config.model.embed_dim, config.training.optimizer) == (8, "adamw")
    assert (config.training.max_minutes, config.sampling.prompts) == (None, [""])
    assert load_record({"data": {"source": "stories"}}).data.val_fraction == 0.1


@pytest.mark.parametrize("section", FORMER_DEFAULTS)
def test_a_file_written_by_hand_has_the_present_defaults(section):
    """It lacks a section, or half of one; `format = 1` makes it a record."""
    record = record_of_format_1()
    del record["data"]["length_buckets"]
    if section == "training":
        record[section] = {"epochs": 2, "steps_per_epoch": 9}
    else:
        del record[section]
    former = {"format": 1} | record
    assert load_config(record).training.clip_norm == 1.0
    assert load_config(former).training.clip_norm is None


@pytest.mark.parametrize("name", shipped_configs())
def test_a_shipped_configuration_is_not_a_record(name):
    settings = tomllib.loads(shipped_configs()[name].read_text())
    assert load_config(name) == load_config({"format": 2} | settings)


def test_settings_of_the_present_schema_are_not_a_record():
    settings = load_config(None).model_dump()
    del settings["training"]["optimizer"]
    assert load_config(settings).training.optimizer == "muon"


def test_the_former_name_of_step_limits_is_read_from_files_written_by_hand():
    assert load_config({"training": {"plan": [[3, 7]]}}).training.step_limits == [[3, 7]]


def test_the_former_name_of_step_limits_is_read_from_overrides():
    settings = {"training": {"plan": [[3, 7]]}}
    assert load_config(settings, ["training.plan=[]"]).training.step_limits == []
    assert load_config(None, ["training.plan=[[1, 2]]"]).training.step_limits == [[1, 2]]
    with pytest.raises(UserError, match=r"^training\.step_limits = 'x': should be"):
        load_config(None, ["training.plan=x"])


@pytest.mark.parametrize("number", [{}, {"format": 1}, {"format": 2}])
def test_the_former_name_of_block_may_not_contradict_it(number, tmp_path):
    def model_of(*overrides, **model):
        return load_config(number | {"model": model}, overrides).model

    assert model_of(norm="pre").block == "pre_norm"
    assert model_of(norm="pre", block="pre_norm").block == "pre_norm"
    assert model_of("model.block=modern", norm="pre").block == "modern"
    file = tmp_path / "config.toml"
    file.write_text(tomli_w.dumps(number | {"model": {"norm": "pre", "block": "modern"}}))
    with pytest.raises(UserError) as caught:
        load_config(file)
    (line,) = caught.value.problems
    assert line == (
        f"{file}: model.norm = 'pre': contradicts model.block = 'modern'; norm is the former name of block"
    )
    for refused in (
        lambda: GPTConfig(norm="pre", block="modern"),
        lambda: split_settings({"norm": "pre", "block": "modern"}),
        lambda: split_settings({"block": "modern", "norm": "pre"}),
    ):
        with pytest.raises(ValueError, match=r"'pre': contradicts model\.block = 'modern'"):
            refused()


def test_settings_without_effect_are_dropped():
    record = record_of_format_1()
    record["data"] = {"source": "python", "paths": [], "val_fraction": 0.5, "length_buckets": 6}
    record["tokenizer"] = {"kind": "gpt2", "vocab_size": 400, "lowercase": False}
    config = load_config(record)
    assert (config.data.source, config.data.val_fraction) == ("python", 0.5)
    assert config.tokenizer.vocab_size == 400


def test_migration_changes_nothing_of_the_callers():
    record = record_of_format_1()
    load_config(record)
    assert record == record_of_format_1()


def test_the_present_format_is_read_as_it_is():
    text = dump_config(load_config(None))
    assert text.startswith("format = 2\n")
    assert dump_config(load_config(tomllib.loads(text))) == text


def test_a_later_format_is_refused_in_one_line(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("format = 3\n[tokenizer]\nkind = 'unigram'\n")
    with pytest.raises(UserError, match="later version of minigpt") as caught:
        load_config(file)
    (line,) = caught.value.problems
    assert line.startswith(f"{file}: format = ")


@pytest.mark.parametrize("number", ["2", 0, True, 1.5])
def test_a_format_that_is_not_a_number_is_refused(number):
    with pytest.raises(UserError, match="should be a number from 1 to 2"):
        load_config({"format": number})
