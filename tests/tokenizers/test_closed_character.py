"""The character tokenizer of minigpt 0.1."""

import json
from pathlib import Path

import pytest

from minigpt.errors import UserError
from minigpt.tokenizers import load_tokenizer
from minigpt.tokenizers.closed_character import ClosedCharacterTokenizer

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "compatibility"


def test_vocabulary_is_the_most_frequent_characters_then_code_point_order():
    tokenizer = ClosedCharacterTokenizer.learn(["bcbaab", "\U0001f600 b"], 7, lowercase=False)
    assert tokenizer.pieces == (b"", b"", b"", b"b", b"a", b" ", b"c")
    assert tokenizer.encode("abc \U0001f600").tolist() == [4, 3, 6, 5, 1]


def test_unseen_characters_are_unknown():
    tokenizer = ClosedCharacterTokenizer.learn(["mn"], 50, lowercase=False)
    assert tokenizer.vocab_size == 5
    assert tokenizer.encode("am\0n\U0010ffffo").tolist() == [1, 3, 1, 4, 1, 1]
    assert tokenizer.decode(tokenizer.encode("amzn")) == "mn"
    assert tokenizer.count_unknown("amzn") == 2


def test_without_any_text_everything_is_unknown():
    tokenizer = ClosedCharacterTokenizer.learn([], 50, lowercase=False)
    assert tokenizer.vocab_size == 3
    assert tokenizer.encode("\0a").tolist() == [1, 1]


def test_lower_casing_comes_first():
    tokenizer = ClosedCharacterTokenizer.learn(["ABÉ"], 50, lowercase=True)
    assert tokenizer.vocab_size == 6
    assert tokenizer.decode(tokenizer.encode("aBbAé")) == "abbaé"


@pytest.mark.parametrize("name", ["character", "pairs", "interrupted"])
def test_saved_tokenizers_are_read_and_written_as_before(name, tmp_path):
    folder = FIXTURES / name / "tokenizer"
    tokenizer = load_tokenizer(folder)
    assert type(tokenizer) is ClosedCharacterTokenizer
    tokenizer.save(tmp_path)
    file = "tokenizer.json"
    assert (tmp_path / file).read_bytes() == (folder / file).read_bytes()
    ids = tokenizer.encode("a ☃\0\U0001f600")
    assert ids[2:].tolist() == [1, 1, 1]
    assert tokenizer.graph().encode(["a ☃\0\U0001f600"]).to_list() == [ids.tolist()]


@pytest.mark.parametrize("format", [3, None, "2", [2]])
def test_other_formats_are_refused(format, tmp_path):
    state = json.loads((FIXTURES / "character" / "tokenizer" / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(state | {"format": format}))
    with pytest.raises(UserError, match=r"format = .*: should be 2$"):
        load_tokenizer(tmp_path)
