"""The exported translator, in a fresh process and against `translate`."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import minigpt
from tests.conftest import letters

LONG = " ".join("abcdefgh" * 3)
SOURCES = ["a b c", "", "  h g f e \n", " \t", "d", *letters(5, seed=8)]


@pytest.fixture(scope="module")
def served(pair_saved_model):
    return tf.saved_model.load(str(pair_saved_model)).signatures


def serve(served, texts, new=20, beams=1, length_penalty=1.0):
    found = served["serving_default"](
        text=tf.constant(texts, tf.string),
        max_new_tokens=tf.constant(new),
        beams=tf.constant(beams),
        length_penalty=tf.constant(length_penalty),
    )["text"]
    return [text.decode("utf-8") for text in found.numpy()]


@pytest.mark.parametrize("beams", [1, 3])
def test_answers_as_translate_does(pair_run, served, beams):
    found = serve(served, SOURCES, beams=beams)
    assert found == minigpt.load(pair_run).translate(SOURCES, beams=beams)
    assert found[:5] == ["c b a", "", "e f g h", "", found[4]]


FRESH = """
import json, sys
import tensorflow as tf, tensorflow_text
served = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
texts = served(text=tf.constant(json.loads(sys.argv[2])), max_new_tokens=tf.constant(20),
    beams=tf.constant(1), length_penalty=tf.constant(1.0))
assert not any(name.split(".")[0] == "minigpt" for name in sys.modules)
print(json.dumps([text.decode() for text in texts["text"].numpy()]))
"""


@pytest.mark.slow
def test_answers_in_a_fresh_process(served, pair_saved_model, tmp_path):
    command = [sys.executable, "-I", "-c", FRESH, str(pair_saved_model), json.dumps(SOURCES)]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == serve(served, SOURCES)


@pytest.mark.parametrize("beams", [1, 4])
def test_a_sentence_does_not_depend_on_its_batch(served, beams):
    together = serve(served, SOURCES, beams=beams)
    assert together == [serve(served, [text], beams=beams)[0] for text in SOURCES]


def test_no_sentences_and_few_tokens(served):
    assert serve(served, []) == []
    assert serve(served, SOURCES, new=0) == [""] * len(SOURCES)
    assert [len(text) for text in serve(served, ["a b c d e"], new=3)] == [3]


def test_a_long_source_is_cut(pair_run, served):
    """max_len is 20: 19 tokens and the end token. Other sources are not affected."""
    with pytest.warns(UserWarning, match="source 2 has 48 tokens.*only the first 19"):
        expected = minigpt.load(pair_run).translate(["a b c", LONG])
    assert serve(served, ["a b c", LONG]) == expected
    assert serve(served, [LONG[:19]]) == expected[1:]


def test_logits_are_those_of_the_model(pair_run, served):
    draw = np.random.default_rng(0)
    source, target = (draw.integers(3, 11, (2, n)).astype("int32") for n in (5, 7))
    lengths = np.array([5, 2], "int32")
    found = served["logits"](
        source_ids=tf.constant(source),
        source_lengths=tf.constant(lengths),
        target_ids=tf.constant(target),
    )["logits"]
    expected = pair_run.load_model()((source, lengths, target))
    np.testing.assert_allclose(found, expected, atol=1e-4)
