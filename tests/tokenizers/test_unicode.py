"""Character classes and lower-casing in Python and in TensorFlow, for every code point."""

import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt.config import load_config
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.kinds import learn_tokenizer
from minigpt.tokenizers.unicode_tables import lower, one_of, one_outside, ranges
from minigpt.tokenizers.word import WHITE_SPACE, WordTokenizer
from tests.graphs import graph_of
from tests.tokenizers.test_gpt2 import ENCODER, MERGES, GPT2Tokenizer

CODE_POINTS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def lowered_by_tensorflow(texts):
    return [text.decode() for text in tf.strings.lower(texts, encoding="utf-8").numpy()]


@pytest.mark.slow
@pytest.mark.parametrize("name", "LNPS")
def test_categories_are_those_of_re2(name):
    expected = tf.strings.regex_full_match(CODE_POINTS, rf"\p{{{name}}}").numpy()
    text = "".join(CODE_POINTS)
    inside = {c for c, found in zip(CODE_POINTS, expected, strict=True) if found}
    assert set(re.findall(one_of(ranges(name)), text)) == inside
    assert set("".join(re.findall(one_of(ranges(name), "+"), text))) == inside
    outside = set("".join(re.findall(one_outside(ranges(name), "+"), text)))
    assert outside == set(CODE_POINTS) - inside


def test_white_space_is_that_of_str_split():
    expected = tf.strings.regex_full_match(CODE_POINTS, WHITE_SPACE).numpy()
    assert [not c.split() for c in CODE_POINTS] == expected.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["{}", "{}aΣ", "a{}Σ", "aΣ{}", "aΣ{}b", "{}Σ{}"])
def test_lower_casing_is_that_of_icu(pattern):
    """A capital sigma becomes another letter at the end of a word: every code point around it."""
    # A line break is neither cased nor case-ignorable: one call lower-cases all lines.
    lines = [pattern.format(c, c) for c in CODE_POINTS if c not in "\0\n"]
    (expected,) = lowered_by_tensorflow(["\n".join(lines)])
    assert lower("\n".join(lines)).split("\n") == expected.split("\n")


# Capitals, case-ignorable and uncased characters, and letters that are new in Python's Unicode.
SIGNS = (
    "ΣσςΑaAİIıßẞǅŉ'.:·’\u0301\u00ad\u180f\u1734\u0345 \n-1東\U0001f600Ⱟⱟ\ua7c0𐕰𐖗𐐀\u0888\u1ac1\ua7f2"
)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.text(
            st.sampled_from(SIGNS)
            | st.characters(exclude_characters="\0", exclude_categories=["Cs"])
        ),
        min_size=1,
    )
)
def test_lower_casing_of_random_text_is_that_of_icu(texts):
    assert [lower(text) for text in texts] == lowered_by_tensorflow(tf.constant(texts, tf.string))


def all_kinds() -> list[Tokenizer]:
    """Word tokenizers that know every letter, a few characters, two vocabularies of bytes."""
    words = [b"a", b"b", *(c.encode() for c in CODE_POINTS if not c.isspace() and c not in "ab")]
    tokenizers: list[Tokenizer] = [WordTokenizer(words, lowercase) for lowercase in (False, True)]
    for kind in ("character", "byte_pair"):
        for lowercase in (False, True):
            chosen = {"kind": kind, "vocab_size": 400, "lowercase": lowercase}
            config = load_config({"tokenizer": chosen}).tokenizer
            tokenizers.append(learn_tokenizer(["Some ΤΕΞΤ, with all sorts of Σignσ."], config))
    return [*tokenizers, GPT2Tokenizer.from_files(ENCODER.read_bytes(), MERGES.read_bytes())]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(7))
def test_graph_and_python_encode_every_code_point_alike(number):
    """In several places each: a letter, digit, sign or space, in front of and after each of them."""
    tokenizer = all_kinds()[number]
    for start in range(0, len(CODE_POINTS), 50_000):
        some = CODE_POINTS[start : start + 50_000]
        lines = [f"a{c} {c}1{c}{c}!{c}  {c}Σ{c}b {c}" for c in some]
        ids = graph_of(tokenizer).encode(lines)
        encoded = tokenizer.encode_many(lines)
        np.testing.assert_array_equal(np.concatenate(encoded), ids.flat_values.numpy())
        assert [len(row) for row in encoded] == ids.row_lengths().numpy().tolist()
