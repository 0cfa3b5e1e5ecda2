"""The exported model, in a fresh process and against `sample` and the callback."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import tensorflow as tf

import minigpt
from minigpt.app import export_run
from minigpt.config import GPTConfig, SamplingConfig
from minigpt.errors import UserError
from minigpt.models import GPT
from minigpt.targets.saved_model.modules import build_text_module
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.conftest import tiny_text
from tests.settings import tokenizer_config

PROMPTS = ["Ana sat", "", "Čeněk sat on the roof and ate 3 figs. \x00 \u2581 \U0001f600 " * 4]


NEW = 32


@pytest.fixture
def served(signatures):
    return signatures


@pytest.fixture
def opened(opened_without_xla):
    return opened_without_xla


def serve(served, prompts, new=NEW, temperature=1.0, top_k=1, top_p=1.0, seed=0):
    texts = served["serving_default"](
        prompt=tf.constant(prompts, tf.string),
        max_new_tokens=tf.constant(new),
        temperature=tf.constant(temperature),
        top_k=tf.constant(top_k),
        top_p=tf.constant(top_p),
        seed=tf.constant(seed),
    )["text"]
    return [text.decode("utf-8") for text in texts.numpy()]


FRESH = """
import json, sys
import tensorflow as tf, tensorflow_text
served = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
texts = served(prompt=tf.constant(json.loads(sys.argv[2])), max_new_tokens=tf.constant(32),
    temperature=tf.constant(1.0), top_k=tf.constant(1), top_p=tf.constant(1.0), seed=tf.constant(0))
assert not any(name.split(".")[0] == "minigpt" for name in sys.modules)
print(json.dumps([text.decode() for text in texts["text"].numpy()]))
"""


def test_answers_in_a_fresh_process_as_sample_does(saved_model, opened, tmp_path):
    script = tmp_path / "fresh.py"
    script.write_text(FRESH)
    out = subprocess.run(
        [sys.executable, str(script), str(saved_model), json.dumps(PROMPTS)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert json.loads(out) == opened.generate(PROMPTS, NEW, top_k=1)


def test_a_prompt_is_enough(saved_model, opened):
    loaded = tf.saved_model.load(str(saved_model))
    texts = loaded.generate(PROMPTS)["text"].numpy()
    settings = SamplingConfig()
    expected = opened.generate(PROMPTS, settings.max_new_tokens, seed=0)
    assert [text.decode() for text in texts] == expected


def test_greedy_text_is_that_of_temperature_0(opened, served):
    assert serve(served, PROMPTS) == opened.generate(PROMPTS, NEW, temperature=0.0)


def test_tokenize_and_detokenize(opened, served):
    encoded = served["tokenize"](text=tf.constant(PROMPTS))
    rows = zip(encoded["token_ids"].numpy(), encoded["lengths"].numpy(), strict=True)
    expected = [ids.tolist() for ids in opened.tokenizer.encode_many(PROMPTS)]
    assert [ids[:length].tolist() for ids, length in rows] == expected
    texts = served["detokenize"](**encoded)["text"].numpy()
    assert [text.decode() for text in texts] == PROMPTS


def test_equal_prompts_and_seeds_give_equal_text_in_any_batch(served):
    alone = serve(served, ["Ana sat"], top_k=0, seed=5)
    beside = serve(served, [PROMPTS[2], "Ana sat", "Ana sat"], top_k=0, seed=5)
    assert beside[1] == beside[2] == alone[0]
    assert serve(served, ["", "Ana sat", PROMPTS[2]], top_k=0, seed=5)[1] == alone[0]
    assert serve(served, ["Ana sat"], top_k=0, seed=6) != alone


def test_sampled_text_equals_samples_with_the_same_settings(opened, served):
    settings = {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "seed": 11}
    assert serve(served, PROMPTS, **settings) == opened.generate(PROMPTS, NEW, **settings)


def test_logits_and_latents(opened, served):
    ids = np.array([[5, 6, 7], [8, 9, 10]], "int32")
    out = served["logits"](token_ids=tf.constant(ids))
    np.testing.assert_allclose(out["logits"], opened.logits(ids), atol=1e-5)
    np.testing.assert_allclose(out["latents"], opened.latents(ids), atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most max_len = 16 tokens"):
        served["logits"](token_ids=tf.zeros([1, 17], tf.int32))


def sample(served, prompts, new=NEW, **settings):
    """Calls the signature with all settings; the defaults have no effect."""
    numbers = {
        "temperature": 1.0,
        "top_k": 1,
        "top_p": 1.0,
        "min_p": 0.0,
        "seed": 0,
        "typical_p": 1.0,
    }
    numbers |= {"repetition_penalty": 1.0, "num_samples": 1}
    texts = served["sample"](
        prompt=tf.constant(prompts, tf.string),
        max_new_tokens=tf.constant(new),
        banned_tokens=tf.constant(settings.pop("banned_tokens", []), tf.int32),
        **{name: tf.constant(value) for name, value in (numbers | settings).items()},
    )["text"].numpy()
    assert texts.shape[0] == len(prompts)
    return [text.decode("utf-8") for text in texts.reshape(-1)]


def test_max_new_tokens_is_limited(served):
    most = 2**31 - 1
    assert serve(served, [], most) == sample(served, [], most) == []
    # Otherwise, this would not end.
    assert sample(served, ["Ana sat"], most, banned_tokens=list(range(320))) == [""]


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("answer", [serve, sample])
def test_values_out_of_range_are_accepted(served, answer):
    """According to the docstring of `TextToText`, for both signatures."""
    assert answer(served, [], 5) == []
    assert len(answer(served, [""])[0]) > 0
    for none in (0, -3, -(2**31)):
        assert answer(served, ["Ana"], none) == [""]
    greedy = answer(served, ["Ana"])
    for odd in [
        *({"temperature": t} for t in (0.0, -1.0, NAN, -INF)),
        *({"top_p": p} for p in (0.0, -1.0, NAN, -INF)),
    ]:
        assert answer(served, ["Ana"], top_k=0, **odd) == greedy, odd
    free = answer(served, ["Ana"], top_k=0)
    assert free != greedy
    for odd in ({"top_k": 10**9}, {"top_k": -1}, {"top_k": 0, "top_p": INF}):
        assert answer(served, ["Ana"], **odd) == free, odd
    assert len(answer(served, ["Ana"], top_k=0, temperature=INF)) == 1
    assert answer(served, [b"\xff Ana \xc3"]) == answer(served, ["\ufffd Ana \ufffd"])
    assert len(answer(served, ["a\0b"])) == 1


@pytest.mark.parametrize("answer", [serve, sample])
def test_a_long_prompt_is_read_from_its_newest_tokens(opened, served, answer):
    sentence = "Ana sat on the hill. "
    assert len(opened.tokenizer.encode(sentence * 3)) > opened.model.max_len
    assert answer(served, [sentence * 50_000], 20) == answer(served, [sentence * 3], 20)


def test_values_out_of_range_of_sample(served):
    greedy, free = sample(served, ["Ana"]), sample(served, ["Ana"], top_k=0)
    for odd in ({"min_p": 1.0}, {"min_p": INF}, {"min_p": NAN}):
        assert sample(served, ["Ana"], top_k=0, **odd) == greedy, odd
    for odd in (
        {"min_p": -1.0},
        *({"repetition_penalty": penalty} for penalty in (0.0, -1.0, NAN)),
        {"num_samples": -1},
        {"banned_tokens": [-1, 10**6]},
    ):
        assert sample(served, ["Ana"], top_k=0, **odd) == free, odd
    assert sample(served, ["Ana"], banned_tokens=list(range(320))) == [""]


def test_ids_out_of_range(served):
    assert served["logits"](token_ids=tf.zeros([0, 3], tf.int32))["logits"].shape == (0, 3, 320)
    for outside in (-1, 320, 10**6):
        with pytest.raises(tf.errors.InvalidArgumentError, match="should be from 0 to 319"):
            served["logits"](token_ids=tf.constant([[5, outside]]))

    def text(ids, lengths):
        ids = tf.constant(ids, tf.int32)
        return served["detokenize"](token_ids=ids, lengths=tf.constant(lengths))["text"].numpy()

    assert list(text([[70, -5, 10**6, 71]], [4])) == list(text([[70, 71]], [9]))
    assert list(text([[70, 71]], [-1])) == [b""]
    with pytest.raises(tf.errors.InvalidArgumentError):
        text([[70, 71]], [1, 1])
    (length,) = served["tokenize"](text=tf.constant(["a\0b"]))["lengths"].numpy()
    assert length == 3
    empty = served["tokenize"](text=tf.constant([], tf.string))
    assert empty["token_ids"].shape[0] == 0 and empty["lengths"].shape == (0,)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:prompt 'unseen ż'. 2 of its")
def test_another_tokenizer(tmp_path, without_xla):
    settings = tokenizer_config(kind="word", vocab_size=13, lowercase=True)
    tokenizer = learn_tokenizer([tiny_text(50)], settings)
    sizes = {"max_len": 8, "embed_dim": 8, "num_heads": 2, "num_layers": 1}
    model = GPT(GPTConfig(**sizes), tokenizer.vocab_size)
    build_text_module(model, tokenizer).save(tmp_path)
    served = tf.saved_model.load(str(tmp_path)).signatures
    prompts = ["ANA sat", "", "unseen ż"]
    assert serve(served, prompts, top_k=0) == minigpt.TextModel(model, tokenizer).generate(
        prompts, NEW, top_k=0, seed=0
    )


def test_a_full_folder_is_not_overwritten(tiny_run, tmp_path):
    (tmp_path / "kept.txt").write_text("mine")
    for format in ("saved_model", "keras"):
        with pytest.raises(UserError, match="output = "):
            export_run(tiny_run, format, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["kept.txt"]


def test_keras_export(tiny_run, opened, tmp_path):
    import keras

    # The path of a run is as good.
    export_run(tiny_run.path, "keras", output=tmp_path / "new.keras")
    model = keras.models.load_model(tmp_path / "new.keras")
    ids = np.array([[5, 6, 7]], "int32")
    np.testing.assert_array_equal(model(ids), opened.logits(ids))
    with zipfile.ZipFile(tmp_path / "new.keras") as archive:
        archive.extractall(tmp_path)
    tokenizer = Tokenizer.load(tmp_path / "minigpt_tokenizer")
    assert tokenizer.fingerprint() == tiny_run.load_tokenizer().fingerprint()


def test_what_export_run_refuses(tiny_run, tmp_path):
    with pytest.raises(ValueError, match="`format` must be one of saved_model, keras, huggingface"):
        minigpt.export_run(tiny_run, "tensorrt", tmp_path / "c")
    with pytest.raises(TypeError, match="output"):
        minigpt.export_run(tiny_run, "keras")
    with pytest.raises(TypeError, match="`run`"):
        export_run(None, "keras", tmp_path / "other")
    assert not any(tmp_path.iterdir())
