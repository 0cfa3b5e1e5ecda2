"""Decoding for any Keras model that maps token ids to logits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from minigpt.config import GPTConfig
from minigpt.config.sampling import TextSettings
from minigpt.generation.given_models import build_decoder
from minigpt.generation.given_tokenizers import as_prompts
from minigpt.generation.sampler import Sampler
from minigpt.layers import TransformerBlock
from minigpt.models import GPT
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.conftest import tiny_text
from tests.settings import tokenizer_config

T, D = 8, 12


@pytest.fixture(scope="module")
def tokenizer():
    config = tokenizer_config(kind="character", vocab_size=64)
    return learn_tokenizer([tiny_text(50)], config)


class Subclassed(keras.Model):
    """Without an argument `training`, and of no fixed length."""

    def __init__(self, vocab_size):
        super().__init__()
        self.embedding = keras.layers.Embedding(vocab_size, D)
        self.rnn = keras.layers.GRU(D, return_sequences=True)
        self.head = keras.layers.Dense(vocab_size)

    def call(self, token_ids):
        return self.head(self.rnn(self.embedding(token_ids)))


def sequential(vocab_size, *last):
    layers = [
        keras.layers.Embedding(vocab_size, D),
        keras.layers.GRU(D, return_sequences=True),
        keras.layers.Dense(vocab_size),
    ]
    return keras.Sequential([keras.Input((T,)), *layers, *last])


def functional(vocab_size):
    """Its logits are the only entry of a list."""
    ids = keras.Input((T,), dtype="int32")
    x = keras.layers.Embedding(vocab_size, D)(ids)
    x = keras.layers.GRU(D, return_sequences=True)(x)
    return keras.Model(ids, [keras.layers.Dense(vocab_size)(x)])


BUILDERS = {
    # Padded logits: entries that the tokenizer does not have are never generated.
    "functional": lambda vocab_size: functional(vocab_size + 5),
    "subclassed": Subclassed,
}


def samples(decoder, tokenizer, prompts, seeds=None, number=1, **settings):
    sampler = Sampler(decoder, tokenizer, TextSettings(**settings))
    found = as_prompts("prompts", prompts, tokenizer)
    return list(sampler.samples(found, seeds or [0] * len(found), number))


def by_full_passes(model, tokenizer, prompt, count, max_len):
    """Greedy, without padding: every token from a pass over the tokens before it."""
    ids = tokenizer.encode(prompt).tolist() or [tokenizer.end_id]
    start = len(ids)
    while len(ids) < start + count:
        window = ids[-max_len:]
        padded = window + [0] * (T - len(window)) if max_len == T else window
        outputs = model(np.array([padded], np.int32))
        outputs = outputs[0] if isinstance(outputs, list) else outputs
        logits = np.array(outputs)[0, len(window) - 1, : tokenizer.vocab_size]
        logits[list(tokenizer.never_sampled_ids)] = -np.inf
        if logits.argmax() == tokenizer.end_id:
            break
        ids.append(int(logits.argmax()))
    return ids[start:]


@pytest.mark.parametrize("kind", BUILDERS)
def test_greedy_equals_full_passes(kind, tokenizer):
    keras.utils.set_random_seed(1)
    model = BUILDERS[kind](tokenizer.vocab_size)
    decoder = build_decoder(model, tokenizer)
    max_len = 64 if kind == "subclassed" else T
    assert decoder.model.max_len == max_len
    prompts = ["", "Ana", "Ana sat on the roof"]
    found = samples(decoder, tokenizer, prompts, temperature=0.0, max_new_tokens=6)
    expected = [by_full_passes(model, tokenizer, prompt, 6, max_len) for prompt in prompts]
    assert [sample.tokens for sample in found] == expected
    assert any(expected)


def test_a_model_fitted_on_batches_reads_as_many_tokens_as_they_have(tokenizer):
    model = Subclassed(tokenizer.vocab_size)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, run_eagerly=True)
    ids = np.ones((2, 5), np.int32)
    model.train_on_batch(ids, ids)
    decoder = build_decoder(model, tokenizer)
    assert decoder.model.max_len == 5
    assert build_decoder(model, tokenizer, max_len=7).model.max_len == 7


class Positions(keras.layers.Layer):
    """A table of positions inside a layer, as in many programs."""

    def __init__(self, vocab_size, count):
        super().__init__()
        self.tokens = keras.layers.Embedding(vocab_size, D)
        self.positions = keras.layers.Embedding(count, D)

    def call(self, token_ids):
        positions = keras.ops.arange(keras.ops.shape(token_ids)[1])
        return self.tokens(token_ids) + self.positions(positions)


def test_the_context_of_a_model_whose_input_has_any_length(tokenizer):
    """64 tokens, if the model accepts them."""
    ids = keras.Input((None,), dtype="int32")
    for count in (100, 60):
        x = Positions(tokenizer.vocab_size, count)(ids)
        model = keras.Model(ids, keras.layers.Dense(tokenizer.vocab_size)(x))
        assert build_decoder(model, tokenizer, max_len=1).model.max_len == 1
        if count == 100:
            assert build_decoder(model, tokenizer).model.max_len == 64
        else:
            with pytest.raises(ValueError, match="max_len"):
                build_decoder(model, tokenizer)


def gpt(vocab_size):
    return GPT(GPTConfig(max_len=T, embed_dim=D, num_heads=2, num_layers=1), vocab_size)


def test_a_gpt_decodes_with_its_cache(tokenizer):
    assert build_decoder(gpt(tokenizer.vocab_size), tokenizer).model.jit_compile


class Failing(keras.Model):
    def call(self, token_ids):
        raise RuntimeError("not for ids")


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda v: keras.Sequential([keras.Input((T,)), keras.layers.Dense(v)]), "gives float32"),
        (lambda v: sequential(v - 3), "vocabulary"),
        (lambda v: gpt(v - 3), "vocabulary"),
        (lambda v: sequential(v, keras.layers.Softmax()), "softmax"),
        (lambda v: sequential(v, keras.layers.Lambda(lambda x: tf.argmax(x, -1))), "int64"),
        (lambda v: sequential(v, keras.layers.Lambda(lambda x: tf.cast(x, "int32"))), "int32"),
        (lambda v: Failing(), "cannot be called"),
    ],
    ids=["rank", "vocabulary", "gpt", "probabilities", "ids", "dtype", "call"],
)
def test_other_models_are_refused(build, reason, tokenizer):
    with pytest.raises(ValueError, match=reason):
        build_decoder(build(tokenizer.vocab_size), tokenizer)


@pytest.mark.parametrize(("causal", "count"), [(True, 1), (False, 1), (False, 2)])
def test_a_model_that_reads_later_tokens_gets_a_warning(causal, count, tokenizer, caplog):
    ids = keras.Input((T,), dtype="int32")
    x = keras.layers.Embedding(tokenizer.vocab_size, D, mask_zero=True)(ids)
    x = TransformerBlock(D, 2, D, causal=causal)(x)
    outputs = [keras.layers.Dense(tokenizer.vocab_size)(x), x][:count]
    model = keras.Model(ids, outputs)
    build_decoder(model, tokenizer)
    assert len(caplog.messages) == (not causal) and all("causal" in m for m in caplog.messages)
