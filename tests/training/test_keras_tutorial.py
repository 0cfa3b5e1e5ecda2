"""`TextGenerator` called as in the Keras tutorial, in plain Keras programs."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from minigpt import TextGenerator, TokenAndPositionEmbedding, TransformerBlock

T = 8
TEXTS = ["This movie is good.<br />Bad?", "the movie is bad, so bad", "a good and short movie"] * 4
# As `TextVectorization.get_vocabulary()` returns it. The head of the models has one entry more.
VOCAB = ["", "[UNK]", "this", "movie", "is", "good", "bad", "."]
V = len(VOCAB) + 1


def create_model(vocab_size=V):
    inputs = layers.Input((T,), dtype="int32")
    x = TokenAndPositionEmbedding(T, vocab_size, 12)(inputs)
    x = TransformerBlock(12, 2, 16)(x)
    outputs = layers.Dense(vocab_size, name="head")(x)
    model = keras.Model(inputs=inputs, outputs=[outputs, x])
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss=[loss_fn, None])
    return model


@pytest.fixture(scope="module")
def untrained():
    """A model, and the continuation of "this movie"."""
    model = create_model()
    return model, sampled(model, 9, [2, 3], VOCAB)


def sampled(model, *args, **kwargs):
    """The (prompt, continuation) pairs after an epoch, without changing the model."""
    shown = []
    generator = TextGenerator(*args, show=lambda *pair: shown.append(pair), **kwargs)
    generator.set_model(model)
    generator.on_train_begin()
    generator.on_epoch_end(0)
    return shown


def test_the_whole_program(capsys):
    def standardize(texts):
        texts = tf.strings.regex_replace(tf.strings.lower(texts), "<br />", " ")
        return tf.strings.regex_replace(texts, r"([.,?])", r" \1")

    vectorize_layer = layers.TextVectorization(
        standardize=standardize,
        max_tokens=29,
        output_mode="int",
        output_sequence_length=T + 1,
    )
    texts = tf.data.Dataset.from_tensor_slices(TEXTS).batch(4)
    vectorize_layer.adapt(texts)
    vocab = vectorize_layer.get_vocabulary()

    def inputs_and_targets(text):
        tokens = vectorize_layer(tf.expand_dims(text, -1))
        return tokens[:, :-1], tokens[:, 1:]

    word_to_index = {word: index for index, word in enumerate(vocab)}
    start_tokens = [word_to_index.get(word, 1) for word in ["this", "movie", "was"]]
    model = create_model(30)
    text_ds = texts.map(inputs_and_targets)
    shown = []
    generators = [
        TextGenerator(12, start_tokens, vocab),
        # `top_k`, and `print_every`: after every second epoch.
        TextGenerator(2, start_tokens, vocab, 10, 2, show=lambda *pair: shown.append(pair)),
    ]
    history = model.fit(text_ds, epochs=3, verbose=0, callbacks=generators)
    assert len(shown) == 1
    assert history.history["loss"][-1] < history.history["loss"][0]
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines.count("generated text:") == 3
    samples = [line for line in lines if line not in ("", "generated text:")]
    assert len(samples) == 3
    for sample in samples:
        words = sample.split(" ")
        # A word of the prompt is unknown. Exactly 12 are drawn.
        assert words[:3] == ["this", "movie", "[UNK]"] and len(words) == 15
        assert set(words[3:]) <= set(vocab) - {"", "[UNK]"}


def test_padding_unknown_words_and_ids_without_a_word_are_never_drawn():
    model = create_model()
    bias = np.zeros(V, "float32")
    bias[[0, 1, V - 1]] = 1e3
    model.get_layer("head").bias.assign(bias)
    ((_, text),) = sampled(model, 30, [2, 3], VOCAB)
    assert len(text.split()) == 30 and set(text.split()) <= set(VOCAB[2:])
    model.get_layer("head").bias.assign(bias * (np.arange(V) == 1))
    assert "[UNK]" not in sampled(model, 30, [2, 3], VOCAB)[0][1]


@pytest.mark.parametrize(
    ("start", "prompts"),
    [
        (np.array([2, 3]), {"this movie": [2, 3]}),
        # A row of a `TextVectorization` layer is padded.
        (np.array([[2, 3, 0, 0, 0]]), {"this movie": [2, 3]}),
        ([[2, 3], [4], []], {"this movie": [2, 3], "is": [4], "": [0]}),
        ([2, 1, 3], {"this [UNK] movie": [2, 1, 3]}),
        ("", {"": [0]}),
        (np.str_("this film"), {"this film": [2, 1]}),
        (np.array(["this", "movie is"]), {"this": [2], "movie is": [3, 4]}),
        (list(range(2, 8)) * 3, {" ".join(VOCAB[2:] * 3): list(range(2, 8)) * 3}),
    ],
    ids=str,
)
def test_start_tokens(start, prompts):
    found = TextGenerator(3, start, VOCAB).prompts
    assert {prompt.text: prompt.ids.tolist() for prompt in found} == prompts


@pytest.mark.parametrize(
    "words",
    [
        tf.constant(VOCAB),
        dict(enumerate(VOCAB)),
        {np.int64(index): word for index, word in enumerate(VOCAB) if index},
    ],
    ids=lambda words: type(words).__name__,
)
def test_vocabularies(words, untrained):
    model, expected = untrained
    assert sampled(model, 9, [2, 3], words) == expected


class Reversed:
    """Letters from a to h; `decode` knows no other id."""

    def encode(self, text):
        return ["hgfedcba".index(letter) for letter in text]

    def decode(self, ids):
        return "".join("hgfedcba"[i] for i in ids)


def test_any_object_that_encodes_and_decodes():
    model = create_model(vocab_size=8)
    ((prompt, text),) = sampled(model, 20, "abc", Reversed())
    assert prompt == "abc" and len(text) == 20
    assert sampled(model, 20, [7, 6, 5], Reversed()) == [(prompt, text)]
    assert sampled(model, Reversed(), "abc", 20) == [(prompt, text)]
    with pytest.raises(ValueError, match=r"^`start_tokens`: an empty text has no token"):
        TextGenerator(20, "", Reversed())
    # The model has ids that the object does not know.
    with pytest.raises(IndexError):
        sampled(create_model(9), 20, "abc", Reversed())
    tokenizer = Reversed()
    tokenizer.vocab_size, tokenizer.end_id, tokenizer.never_sampled_ids = 8, 3, [0, 1]
    model = create_model(9)
    ((_, text),) = sampled(model, 50, "abc", tokenizer, temperature=3.0, banned_tokens=[3])
    assert set(text) == set("abcdefgh") - set("hg") - {"e"}
    bias = np.zeros(9, "float32")
    bias[3] = 1e3
    model.get_layer("head").bias.assign(bias)
    assert sampled(model, 20, ["abc", ""], tokenizer) == [("abc", ""), ("", "")]


@pytest.mark.filterwarnings("ignore:The structure of `inputs` doesn't match:UserWarning")
def test_outputs_with_names():
    keras.utils.set_random_seed(1)
    model = create_model()
    expected = sampled(model, 9, [2, 3], VOCAB)
    logits, latents = model.outputs
    other = keras.Model(model.inputs, {"a": latents[..., :4], "scores": logits})
    assert sampled(other, 9, [2, 3], VOCAB) == expected


def test_a_model_of_a_smaller_vocabulary_is_refused_before_the_first_step():
    model = create_model(vocab_size=6)
    before = model.get_layer("head").kernel.numpy()
    with pytest.raises(ValueError, match=r"vocabulary size.*6\].*12\]"):
        ids = np.full((8, T), 2, "int32")
        model.fit(ids, ids, verbose=0, callbacks=[TextGenerator(9, [2], VOCAB * 2)])
    np.testing.assert_array_equal(model.get_layer("head").kernel, before)
