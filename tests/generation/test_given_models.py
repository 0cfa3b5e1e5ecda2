"""Decoding for any Keras model that maps token ids to logits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from minigpt.config import GPTConfig, SamplingConfig
from minigpt.generation.given_models import build_decoder
from minigpt.generation.prompts import as_prompts
from minigpt.generation.samples import generate
from minigpt.layers import TransformerBlock
from minigpt.models import build_gpt
from minigpt.tokenizers import learn_tokenizer
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


def sequential(vocab_size, *last, length=T):
    layers = [
        keras.layers.Embedding(vocab_size, D),
        keras.layers.GRU(D, return_sequences=True),
        keras.layers.Dense(vocab_size),
    ]
    return keras.Sequential([keras.Input((length,)), *layers, *last])


def functional(vocab_size):
    """Its logits are the only entry of a list."""
    ids = keras.Input((T,), dtype="int32")
    x = keras.layers.Embedding(vocab_size, D)(ids)
    x = keras.layers.GRU(D, return_sequences=True)(x)
    logits = keras.layers.Dense(vocab_size)(x)
    return keras.Model(ids, [logits])


BUILDERS = {
    "sequential": sequential,
    "any-length": lambda vocab_size: sequential(vocab_size, length=None),
    "functional": functional,
    "subclassed": Subclassed,
    # Padded logits: entries that the tokenizer does not have are never generated.
    "larger-vocabulary": lambda vocab_size: sequential(vocab_size + 5),
}


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
    max_len = T if kind not in ("any-length", "subclassed") else 64
    assert decoder.model.max_len == max_len
    prompts = ["", "Ana", "Ana sat on the roof"]
    sampling = SamplingConfig(temperature=0.0, max_new_tokens=10)
    found = [
        s.tokens
        for s in generate(
            decoder, tokenizer, as_prompts("prompts", prompts, tokenizer), [0] * 3, sampling
        )
    ]
    assert found == [by_full_passes(model, tokenizer, p, 10, max_len) for p in prompts]
    assert any(found)


def test_a_model_fitted_on_batches_reads_as_many_tokens_as_they_have(tokenizer):
    model = Subclassed(tokenizer.vocab_size)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ids = np.ones((2, 5), np.int32)
    model.fit(ids, ids, verbose=0)
    decoder = build_decoder(model, tokenizer)
    assert decoder.model.max_len == 5
    assert build_decoder(model, tokenizer, max_len=7).model.max_len == 7
    # The decoder follows the weights.
    sampling = SamplingConfig(temperature=0.0, max_new_tokens=3)
    (a,) = tokenizer.encode("A").tolist()
    model.head.bias.assign(tf.one_hot(a, tokenizer.vocab_size) * 1e3)
    (sample,) = generate(decoder, tokenizer, as_prompts("prompts", ["A"], tokenizer), [0], sampling)
    assert sample.tokens == [a, a, a]


class Positions(keras.layers.Layer):
    """A table of positions inside a layer, as in many programs."""

    def __init__(self, vocab_size, count, **attributes):
        super().__init__()
        self.tokens = keras.layers.Embedding(vocab_size, D)
        self.parts = [keras.layers.Dropout(0.1), keras.layers.Embedding(count, D)]
        for name, value in attributes.items():
            setattr(self.parts[0], name, value)

    def call(self, token_ids):
        positions = keras.ops.arange(keras.ops.shape(token_ids)[1])
        return self.tokens(token_ids) + self.parts[1](positions)


def of_any_length(vocab_size, count, **attributes):
    keras.utils.set_random_seed(2)
    ids = keras.Input((None,), dtype="int32")
    x = Positions(vocab_size, count, **attributes)(ids)
    x = keras.layers.GRU(D, return_sequences=True)(x)
    return keras.Model(ids, keras.layers.Dense(vocab_size)(x))


@pytest.mark.parametrize(
    ("count", "attributes", "max_len"),
    [
        (100, {"sequence_length": 100}, 100),
        (7, {"maxlen": 7}, 7),
        (100, {"max_len": 100, "sequence_length": 90}, 90),
        # Without such an attribute: 64, or fewer if the model refuses them.
        (100, {}, 64),
        (40, {}, 40),
        (1, {}, 1),
    ],
)
def test_the_context_of_a_model_whose_input_has_any_length(count, attributes, max_len, tokenizer):
    model = of_any_length(tokenizer.vocab_size, count, **attributes)
    decoder = build_decoder(model, tokenizer)
    assert decoder.model.max_len == max_len
    sampling = SamplingConfig(temperature=0.0, max_new_tokens=12)
    (sample,) = generate(
        decoder, tokenizer, as_prompts("prompts", ["Ana sat"], tokenizer), [0], sampling
    )
    assert sample.tokens == by_full_passes(model, tokenizer, "Ana sat", 12, max_len)
    assert build_decoder(model, tokenizer, max_len=1).model.max_len == 1


def test_untrained_bytes_are_never_drawn(tokenizer):
    model = sequential(tokenizer.vocab_size)
    decoder = build_decoder(model, tokenizer)
    sampling = SamplingConfig(temperature=5.0, top_k=0, max_new_tokens=40)
    found = [
        s.tokens
        for s in generate(
            decoder, tokenizer, as_prompts("prompts", ["Ana ☃"] * 8, tokenizer), range(8), sampling
        )
    ]
    drawn = {token for tokens in found for token in tokens}
    assert len(drawn) > 10 and drawn.isdisjoint(tokenizer.byte_ids)


def test_settings_of_sampling_apply(tokenizer):
    decoder = build_decoder(sequential(tokenizer.vocab_size), tokenizer)

    def texts(**settings):
        sampling = SamplingConfig(max_new_tokens=20, top_k=0, **settings)
        return [
            s.text
            for s in generate(
                decoder,
                tokenizer,
                as_prompts("prompts", ["Ana"], tokenizer),
                [3],
                sampling,
                num_samples=2,
            )
        ]

    free = texts()
    assert free == texts() and free[0] != free[1]
    stop = free[0][5:7]
    assert texts(stop=[stop])[0] == free[0][: free[0].index(stop)]
    banned = tokenizer.encode(free[0][0]).tolist()
    assert free[0][0] not in texts(banned_tokens=banned)[0]
    assert len(texts(beams=3)) == 2


def test_a_gpt_decodes_with_its_cache(tokenizer):
    model = gpt(tokenizer.vocab_size)
    assert build_decoder(model, tokenizer).model.jit_compile


def gpt(vocab_size):
    return build_gpt(GPTConfig(max_len=T, embed_dim=D, num_heads=2, num_layers=1), vocab_size)


class Failing(keras.Model):
    def call(self, token_ids):
        raise RuntimeError("not for ids\nsecond line")


@pytest.mark.parametrize(
    ("build", "missing"),
    [
        (
            lambda v: keras.Sequential([keras.Input((T,)), keras.layers.Dense(v)]),
            r"gives float32\[1, ",
        ),
        (lambda v: sequential(v - 3), "its vocabulary has"),
        (lambda v: gpt(v - 3), "its vocabulary has"),
        (lambda v: sequential(v, keras.layers.Softmax()), "remove the softmax"),
        (
            lambda v: sequential(v, keras.layers.Lambda(lambda x: tf.argmax(x, -1))),
            r"gives int64\[",
        ),
        (
            lambda v: sequential(v, keras.layers.Lambda(lambda x: tf.cast(x, "int32"))),
            "output is int32",
        ),
        (lambda v: Failing(), "cannot be called on .*not for ids$"),
    ],
    ids=["rank", "vocabulary", "gpt", "probabilities", "ids", "dtype", "call"],
)
def test_other_models_are_refused(build, missing, tokenizer):
    with pytest.raises(ValueError, match=r"should map token ids.*logits") as refused:
        build_decoder(build(tokenizer.vocab_size), tokenizer)
    assert refused.match(missing)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_model_that_reads_later_tokens_gets_a_warning(causal, outputs, tokenizer, caplog):
    ids = keras.Input((T,), dtype="int32")
    x = keras.layers.Embedding(tokenizer.vocab_size, D, mask_zero=True)(ids)
    x = TransformerBlock(D, 2, D, causal=causal)(x)
    logits = keras.layers.Dense(tokenizer.vocab_size)(x)
    build_decoder(keras.Model(ids, [logits, x][:outputs]), tokenizer)
    expected = "The logits of the model depend on later tokens, so it cannot generate text"
    assert [expected in line for line in caplog.messages] == [True] * (not causal)
