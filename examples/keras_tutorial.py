"""The program of the Keras tutorial "Text generation with a miniature GPT", with minigpt's layers.

It differs from the tutorial in one line: the import from minigpt takes the place of the tutorial's three
class definitions and its mask function. Each line of the files is a text; each file of the IMDB reviews has
one line. The model is written to keras_tutorial.keras and opened again.

python keras_tutorial.py aclImdb/train/pos aclImdb/train/neg aclImdb/test/pos aclImdb/test/neg
python keras_tutorial.py book.txt --epochs 3 --prompt "the ship"
"""

import argparse
import random
import string
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

from minigpt import TextGenerator, TokenAndPositionEmbedding, TransformerBlock

VOCAB_SIZE = 20_000
MAXLEN = 80
EMBED_DIM = 256
NUM_HEADS = 2
FEED_FORWARD_DIM = 256
BATCH_SIZE = 128


def create_model() -> keras.Model:
    """Returns the compiled model: int32[B, T] → logits, which have a loss, and the block's output."""
    inputs = layers.Input((MAXLEN,), dtype="int32")
    x = TokenAndPositionEmbedding(MAXLEN, VOCAB_SIZE, EMBED_DIM)(inputs)
    x = TransformerBlock(EMBED_DIM, NUM_HEADS, FEED_FORWARD_DIM)(x)
    outputs = layers.Dense(VOCAB_SIZE)(x)
    model = keras.Model(inputs=inputs, outputs=[outputs, x])
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss=[loss_fn, None])
    return model


@keras.saving.register_keras_serializable("keras_tutorial")
def standardize(texts: tf.Tensor) -> tf.Tensor:
    """Lower-cases texts, removes HTML line breaks, and makes each punctuation mark a word."""
    texts = tf.strings.regex_replace(tf.strings.lower(texts), "<br />", " ")
    return tf.strings.regex_replace(texts, f"([{string.punctuation}])", r" \1")


def read_lines(paths: list[str]) -> tf.data.Dataset:
    """Returns batches of texts: the lines of the files and of the .txt files in the folders."""
    found = [Path(path) for path in paths]
    files = [str(f) for p in found for f in (sorted(p.glob("*.txt")) if p.is_dir() else [p])]
    random.Random(0).shuffle(files)
    lines = tf.data.TextLineDataset(files).filter(lambda line: tf.strings.length(line) > 0)
    return lines.shuffle(256).batch(BATCH_SIZE)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="+", help="text files, or folders of .txt files")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--prompt", default="this movie is")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)

    texts = read_lines(arguments.paths)
    vectorize_layer = layers.TextVectorization(
        standardize=standardize,
        max_tokens=VOCAB_SIZE - 1,
        output_mode="int",
        output_sequence_length=MAXLEN + 1,
    )
    vectorize_layer.adapt(texts)
    vocab = vectorize_layer.get_vocabulary()

    def inputs_and_targets(text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        tokens = vectorize_layer(tf.expand_dims(text, -1))
        return tokens[:, :-1], tokens[:, 1:]

    text_ds = texts.map(inputs_and_targets, num_parallel_calls=tf.data.AUTOTUNE)
    text_ds = text_ds.prefetch(tf.data.AUTOTUNE)

    word_to_index = {word: index for index, word in enumerate(vocab)}
    start_tokens = [word_to_index.get(word, 1) for word in arguments.prompt.split()]
    num_tokens_generated = 40
    text_gen_callback = TextGenerator(num_tokens_generated, start_tokens, vocab)

    model = create_model()
    model.fit(text_ds, verbose=2, epochs=arguments.epochs, callbacks=[text_gen_callback])

    model.save("keras_tutorial.keras")
    # minigpt's layers are registered with Keras: `custom_objects` is not needed.
    text_gen_callback.set_model(keras.models.load_model("keras_tutorial.keras"))
    text_gen_callback.on_epoch_end(0)


if __name__ == "__main__":
    main()
