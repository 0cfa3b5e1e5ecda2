"""The Keras tutorial "Text generation with a miniature GPT", reimplemented: model, data and callback.

Sizes and settings are the tutorial's (https://keras.io/examples/generative/text_generation_with_miniature_gpt/);
the code is ours.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.measuring import (
    DEFAULT,
    WORDS,
    Finished,
    Outcome,
    Sizes,
    SteadySpeed,
    seconds_since_start,
    watching,
)

RATE = 0.1
# As in the tutorial, every punctuation target becomes a word.
_PUNCTUATION = r"""([!"#$%&'()*+,\-./:;<=>?@\[\]^_`{|}~\\])"""


def build(sizes: Sizes, jit: bool | str, dropout: float = RATE, optimizer: Any = "adam") -> Any:
    """Returns the compiled model. Outputs: logits, which have a loss, and the last block's output."""
    import keras

    ids = keras.Input((sizes.length,), dtype="int32")
    x = embed(sizes, ids)
    for _ in range(sizes.num_layers):
        x = block(sizes, x, dropout)
    model = keras.Model(ids, [keras.layers.Dense(sizes.vocab_size, name="head")(x), x])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss=[loss, None], jit_compile=jit)
    return model


def embed(sizes: Sizes, ids: Any) -> Any:
    """The sum of token and position embeddings, in one layer as in the tutorial."""
    import keras

    class TokenAndPositionEmbedding(keras.layers.Layer):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.tokens = keras.layers.Embedding(sizes.vocab_size, sizes.embed_dim)
            self.positions = keras.layers.Embedding(sizes.length, sizes.embed_dim)

        def call(self, x: Any) -> Any:
            places = keras.ops.arange(0, keras.ops.shape(x)[-1], 1)
            return self.tokens(x) + self.positions(places)

    return TokenAndPositionEmbedding(name="embed")(ids)


def block(sizes: Sizes, x: Any, dropout: float) -> Any:
    """Causal attention and a feed-forward network, with layer normalization after each sum."""
    import keras
    from keras import ops

    class TransformerBlock(keras.layers.Layer):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            # In the tutorial, every head has the full width.
            self.attention = keras.layers.MultiHeadAttention(sizes.num_heads, sizes.head_dim)
            self.expand = keras.layers.Dense(sizes.ff_dim, activation="relu")
            self.contract = keras.layers.Dense(sizes.embed_dim)
            self.norm1 = keras.layers.LayerNormalization(epsilon=1e-6)
            self.norm2 = keras.layers.LayerNormalization(epsilon=1e-6)
            self.dropout1 = keras.layers.Dropout(dropout)
            self.dropout2 = keras.layers.Dropout(dropout)

        def call(self, x: Any) -> Any:
            batch, length = ops.shape(x)[0], ops.shape(x)[1]
            places = ops.arange(length)
            # One mask for each row of the batch, as in the tutorial.
            mask = ops.cast(places[:, None] >= places[None], "bool")
            mask = ops.tile(mask[None], (batch, 1, 1))
            attended = self.dropout1(self.attention(x, x, attention_mask=mask))
            x = self.norm1(x + attended)
            return self.norm2(x + self.dropout2(self.contract(self.expand(x))))

    return TransformerBlock()(x)


def speed(jit: bool, steps: int, seconds: float) -> Outcome:
    """Measures tokens per second of `fit` with prepared batches of random tokens, without text."""
    import keras
    import numpy as np
    import tensorflow as tf

    steady = SteadySpeed(WORDS.tokens_per_step, steps, seconds)

    def observe(model: Any, step: int) -> None:
        if step and steady.seen(step):
            raise Finished

    keras.utils.set_random_seed(0)
    rows = np.random.default_rng(0).integers(
        WORDS.vocab_size, size=(4 * WORDS.batch_size, WORDS.length + 1), dtype=np.int32
    )
    dataset = tf.data.Dataset.from_tensor_slices((rows[:, :-1], rows[:, 1:]))
    dataset = dataset.repeat().batch(WORDS.batch_size, drop_remainder=True).prefetch(2)
    with suppress(Finished):
        build(WORDS, jit).fit(dataset, verbose=0, callbacks=[watching(observe)])
    return steady.outcome()


def quality(seconds: float) -> Outcome:
    """Trains on the first 81 words of each review for so many seconds since the start of the process."""
    import keras
    import numpy as np
    import tensorflow as tf

    from benchmarks.quality import keras_score, seconds_of_training

    train, held_out = np.load("words-train.npy"), np.load("words-val.npy")
    seconds_trained = 0.0

    def observe(model: Any, step: int) -> None:
        nonlocal seconds_trained
        if (seconds_trained := seconds_of_training()) >= seconds:
            raise Finished

    keras.utils.set_random_seed(0)
    rows = tf.data.Dataset.from_tensor_slices((train[:, :-1], train[:, 1:]))
    rows = rows.shuffle(len(train)).repeat().batch(WORDS.batch_size).prefetch(2)
    model = build(WORDS, "auto")
    with suppress(Finished):
        model.fit(rows, verbose=0, callbacks=[watching(observe)])
    return {"value": seconds_trained, "score": keras_score(model, held_out)}


def write_stories() -> Outcome:
    """Writes the stories to a file, one per line, as the tutorial reads them."""
    from minigpt.corpus.sources import stories

    lines = [story.replace("\n", " ") for story in stories()]
    Path("stories.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"value": len(lines)}


def start(jit: bool, steps: int) -> Outcome:
    """Measures seconds from the start of the process to an update, including text and vocabulary."""
    import keras  # noqa: F401

    seconds = 0.0

    def observe(model: Any, step: int) -> None:
        nonlocal seconds
        if step >= steps:
            seconds = seconds_since_start()
            raise Finished

    batches = vectorized(Path("stories.txt"), DEFAULT)
    model = build(DEFAULT, jit)
    with suppress(Finished):
        model.fit(batches, verbose=0, epochs=25, callbacks=[watching(observe)])
    return {"value": seconds}


def vectorized(path: Path, sizes: Sizes) -> Any:
    """Returns batches of inputs and targets; each line is cut or padded to the sequence length."""
    import tensorflow as tf
    from keras.layers import TextVectorization

    def standardized(lines: Any) -> Any:
        lines = tf.strings.regex_replace(tf.strings.lower(lines), "<br />", " ")
        return tf.strings.regex_replace(lines, _PUNCTUATION, r" \1")

    def moved_on(lines: Any) -> tuple[Any, Any]:
        ids = layer(tf.expand_dims(lines, -1))
        return ids[:, :-1], ids[:, 1:]

    lines = tf.data.TextLineDataset(str(path)).shuffle(256).batch(sizes.batch_size)
    layer = TextVectorization(
        standardize=standardized,
        max_tokens=sizes.vocab_size - 1,
        output_mode="int",
        output_sequence_length=sizes.length + 1,
    )
    layer.adapt(lines)
    return lines.map(moved_on, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
