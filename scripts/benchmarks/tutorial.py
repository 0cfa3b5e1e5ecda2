"""The Keras tutorial "Text generation with a miniature GPT", reimplemented: model, data and callback.

Sizes and settings are the tutorial's (https://keras.io/examples/generative/text_generation_with_miniature_gpt/);
the code is ours.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.keras_fit import fit_speed
from benchmarks.measuring import Context, Outcome
from benchmarks.sizes import DEFAULT, WORDS, Sizes
from benchmarks.watching import Finished, watch

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


def speed(context: Context, jit: bool | str, steps: int, seconds: float) -> Outcome:
    """Measures tokens per second of `fit` with prepared batches, without vectorizing text."""
    return fit_speed(lambda: build(WORDS, jit), WORDS, 4, steps, seconds)


def losses(context: Context, steps: int) -> Outcome:
    """Returns the loss after the same updates as `our_training.losses`, from its weights and batches."""
    import numpy as np

    from benchmarks.our_training import batch_loss

    with np.load(context.work / "words.npz") as saved:
        arrays = dict(saved)
    model = build(WORDS, True, dropout=0.0)
    set_weights(model, arrays)
    for inputs, targets in zip(arrays["inputs"][:steps], arrays["targets"][:steps], strict=True):
        model.train_on_batch(inputs, targets)
    return {"value": batch_loss(model, arrays["inputs"][steps], arrays["targets"][steps])}


def quality(context: Context, seconds: Sequence[float]) -> Outcome:
    """Trains on the first 81 words of each review; evaluates after these seconds since the start."""
    import keras
    import tensorflow as tf

    from benchmarks.keras_fit import nats_of
    from benchmarks.quality import TimedEvaluation
    from benchmarks.quality_texts import held_out_words, read_ids

    train, val, facts = read_ids(context, "words")
    evaluation: TimedEvaluation

    def observe(model: Any, step: int, event: str) -> None:
        nonlocal evaluation
        if event == "begin":
            held_out = held_out_words(val, facts["vocab_size"])
            evaluation = TimedEvaluation(context, held_out, nats_of(model), ends=seconds)
        else:
            evaluation.evaluate_if_due(step)
        if evaluation.is_over:
            raise Finished

    watch(observe)
    keras.utils.set_random_seed(0)
    rows = tf.data.Dataset.from_tensor_slices((train[:, :-1], train[:, 1:]))
    rows = rows.shuffle(len(train)).repeat().batch(WORDS.batch_size).prefetch(2)
    with suppress(Finished):
        build(WORDS, "auto").fit(rows, verbose=0)
    return evaluation.outcome()


def set_weights(model: Any, arrays: dict[str, Any]) -> None:
    """Assigns named arrays to the layers of a model with one block."""
    embedding, body, head = model.layers[-3:]
    attention = body.attention
    places = {
        "tokens": embedding.tokens.embeddings,
        "positions": embedding.positions.embeddings,
        "head_kernel": head.kernel,
        "head_bias": head.bias,
    }
    for name in ("query", "key", "value", "output"):
        layer = getattr(attention, f"_{name}_dense")
        places |= {f"{name}_kernel": layer.kernel, f"{name}_bias": layer.bias}
    for name in ("expand", "contract"):
        layer = getattr(body, name)
        places |= {f"{name}_kernel": layer.kernel, f"{name}_bias": layer.bias}
    for name in ("norm1", "norm2"):
        layer = getattr(body, name)
        places |= {f"{name}_gamma": layer.gamma, f"{name}_beta": layer.beta}
    for name, variable in places.items():
        variable.assign(arrays[name])


def write_stories(context: Context) -> Outcome:
    """Writes the stories to a file, one per line, as the tutorial reads them."""
    from minigpt.corpus.sources import stories

    lines = [story.replace("\n", " ") for story in stories()]
    (context.work / "stories.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"value": len(lines)}


def start(context: Context, jit: bool | str, steps: int) -> Outcome:
    """Measures seconds from the start of the process to an update, including text and vocabulary."""
    import keras  # noqa: F401

    seconds = 0.0

    def observe(model: Any, step: int, event: str) -> None:
        nonlocal seconds
        if event == "step" and step >= steps:
            seconds = context.seconds()
            raise Finished

    watch(observe)
    batches = vectorized(context.work / "stories.txt", DEFAULT)
    model = build(DEFAULT, jit)
    with suppress(Finished):
        model.fit(batches, verbose=0, epochs=25)
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


def callback(context: Context, new_tokens: int, epochs: int) -> Outcome:
    """Measures the seconds of an epoch's sample; every token is a `predict` of the padded prompt."""
    import statistics
    import time

    import keras
    import numpy as np

    sizes, taken = replace(WORDS, batch_size=1), []

    class Sample(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            began = time.perf_counter()
            ids = [11, 12, 13]
            while len(ids) < 3 + new_tokens:
                seen = ids[-sizes.length :]
                padded = np.zeros((1, sizes.length), np.int32)
                padded[0, : len(seen)] = seen
                logits, _ = self.model.predict(padded, verbose=0)
                ids.append(draw(logits[0][len(seen) - 1]))
            taken.append(time.perf_counter() - began)

    keras.utils.set_random_seed(0)
    inputs = np.ones((sizes.batch_size, sizes.length), np.int32)
    build(sizes, "auto").fit(inputs, inputs, epochs=epochs, verbose=0, callbacks=[Sample()])
    # The first sample includes compilation.
    return {"value": statistics.median(taken[1:]), "first": taken[0]}


def draw(logits: Any, k: int = 10) -> int:
    """Draws one of the k most probable tokens."""
    import numpy as np
    import tensorflow as tf

    values, ids = tf.math.top_k(logits, k=k, sorted=True)
    weights = np.asarray(tf.nn.softmax(values[None])[0]).astype("float64")
    return int(np.random.choice(ids.numpy(), p=weights / weights.sum()))
