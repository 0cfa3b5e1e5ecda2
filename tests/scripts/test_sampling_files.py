"""The table of sampling settings, and the files that are written from it."""

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from minigpt.config import SamplingConfig
from minigpt.config.sampling import BY_NAME, DISTRIBUTION, SETTINGS, TextSettings, settings_of
from minigpt.errors import UserError
from minigpt.generation.sampling import SAMPLING_SPEC
from minigpt.serving.bodies import CompletionBody
from minigpt.targets.targets import TARGETS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from make_sampling_files import HEADER, TABLE, header, table


@pytest.mark.parametrize("file, made", [(HEADER, header), (TABLE, table)])
def test_written_files_are_up_to_date(file, made):
    current = file.read_text(encoding="utf-8") == made()
    assert current, f"{file.name} is out of date: run python scripts/make_sampling_files.py"


def test_everything_has_the_settings_of_the_table():
    assert list(SamplingConfig.model_fields) == [setting.name for setting in SETTINGS]
    names = [setting.name for setting in DISTRIBUTION]
    assert [spec.name for spec in SAMPLING_SPEC] == names
    assert set(names) <= set(CompletionBody.model_fields)
    assert vars(TextSettings()) == SamplingConfig().model_dump()
    assert {name for setting in SETTINGS for name in setting.formats} <= set(TARGETS)


NUMBERS = [s for s in SETTINGS if s.type in (int, float) and s.role != "training"]


@pytest.mark.parametrize("setting", NUMBERS, ids=str)
def test_a_value_is_allowed_by_the_configuration_and_by_the_engine_or_by_neither(setting):
    """The limits themselves, and the values on both sides of them."""
    step = 1 if setting.type is int else 1e-9
    values = {0, -1, 2**31, 10**18, 0.5, float("nan"), float("inf"), True, "1"}
    for _, limit in setting.limits():
        values |= {setting.type(limit), setting.type(limit - step), setting.type(limit + step)}
    for value in values:
        try:
            SamplingConfig(**{setting.name: value})
            is_allowed = True
        except ValueError:
            is_allowed = False
        with nullcontext() if is_allowed else pytest.raises(UserError):
            settings_of({setting.name: value})


def test_what_the_engine_lacks_changes_nothing_at_its_neutral_value():
    for setting in DISTRIBUTION:
        assert not setting.takes_effect(setting.neutral)
    assert BY_NAME["beams"].takes_effect(2)
    with pytest.raises(UserError, match="did you mean typical_p"):
        settings_of({"typicl_p": 0.5})
