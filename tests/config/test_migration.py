"""Configurations of other format numbers; tests/compatibility reads whole runs."""

import tomllib

import pytest

from minigpt.config import dump_config, load_config
from minigpt.config.migration import _FORMAT_1
from minigpt.errors import UserError


def record_of_format_1() -> dict:
    """What the earlier version wrote of settings that are all unset where they may be."""
    sections = tomllib.loads(
        dump_config(load_config({"data": {"source": "files", "paths": ["x"]}}))
    )
    del sections["format"]
    sections["training"]["plan"] = [[3, 7]]
    sections["data"]["length_buckets"] = 4
    return {
        name: {key: sections[name][key] for key in keys.split()} for name, keys in _FORMAT_1.items()
    }


def test_a_record_without_a_number_keeps_its_unset_values():
    config = load_config(record_of_format_1())
    training = config.training
    assert training.clip_norm is training.max_minutes is training.steps_per_epoch is None
    assert training.checkpoint_every_seconds is None
    assert training.step_limits == [[3, 7]]


def test_a_file_written_by_hand_has_the_present_defaults():
    record = record_of_format_1()
    del record["training"]["seed"], record["data"]["length_buckets"]
    assert load_config(record).training.clip_norm == 1.0


def test_the_former_name_of_step_limits_is_read_from_files_written_by_hand():
    assert load_config({"training": {"plan": [[3, 7]]}}).training.step_limits == [[3, 7]]


def test_settings_without_effect_are_dropped():
    record = record_of_format_1()
    record["data"] = {"source": "python", "paths": [], "val_fraction": 0.5, "length_buckets": 4}
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
