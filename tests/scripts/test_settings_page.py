"""docs/settings.md lists every setting and is up to date."""

import re
import sys
from pathlib import Path

import pytest

from minigpt.config import SECTIONS, load_config
from minigpt.config.schema import variants
from minigpt.errors import UserError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from make_settings_page import FILE, page

ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in FILE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
]


def test_the_page_is_up_to_date():
    current = FILE.read_text(encoding="utf-8") == page()
    assert current, "docs/settings.md is out of date: run python scripts/make_settings_page.py"


def test_every_setting_is_listed_with_a_description():
    rows = [row for row in ROWS if re.match("string|integer|number|boolean|list", row[1])]
    expected = {
        f"`{s}.{name}`" for s in SECTIONS for v in variants(s).values() for name in v.model_fields
    }
    assert {row[0] for row in rows} == expected
    for name, _, default, _, description in rows:
        assert default and description, name


@pytest.mark.parametrize(
    ("setting", "words", "inside", "outside"),
    [
        ("training.batch_size", "1 to 1,000,000", "1000000", "1000001"),
        ("sampling.top_p", "more than 0, at most 1", "1.0", "0.0"),
        ("data.val_fraction", "more than 0, less than 1", "0.999", "1.0"),
        ("training.seed", "0 to 2,147,483,647", "2147483647", "2147483648"),
        ("model.num_layers", "1 to 256", "256", "257"),
        ("sampling.banned_tokens", "each 0 or more", "[0]", "[-1]"),
        ("sampling.stop", "each not empty", '["x"]', '[""]'),
    ],
)
def test_allowed_values_are_those_that_are_accepted(setting, words, inside, outside):
    assert words in [row[3] for row in ROWS if row[0] == f"`{setting}`"]
    load_config(None, [f"{setting}={inside}"])
    with pytest.raises(UserError, match=setting):
        load_config(None, [f"{setting}={outside}"])
