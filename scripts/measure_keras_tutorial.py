"""Trains the Keras tutorial's miniature GPT on the batches of a run, from its initial weights.

    minigpt train --config imdb_keras_example --set training.epochs=1 --run RUN
    python scripts/measure_keras_tutorial.py RUN [--steps 390] [--dense-gradients]

The tutorial's model consists of Keras' own layers (`benchmarks/tutorial.py`) and is trained with Keras' own
Adam. Prints the training loss of both, in nats per token, as means over the steps between two rows. The
dropout masks of the two differ, and for the embeddings Keras' Adam squares the gradient of each occurrence
of a token by itself, where ours squares their sum (the formula of Kingma & Ba 2015). `--dense-gradients`
has Keras' Adam square the sum, too.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from benchmarks import tutorial
from benchmarks.our_training import tutorial_weights
from benchmarks.sizes import Sizes

from minigpt.corpus.batches import training_batch
from minigpt.models import build_gpt
from minigpt.runs.records import read_lines
from minigpt.runs.run import Run, open_run_corpus

# The last steps of the rows. An epoch of the tutorial, which cuts each review, has 391 batches.
ROWS = (1, 10, 30, 100, 200, 300, 390, 600, 800, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a run of the configuration imdb_keras_example")
    parser.add_argument("--steps", type=int, help="steps to train; those of the run if unset")
    parser.add_argument(
        "--dense-gradients",
        action="store_true",
        help="add up the gradients of all occurrences of a token before Keras' Adam sees them",
    )
    arguments = parser.parse_args()
    run = Run(arguments.run)
    means = epoch_means(run)
    last = max(step for step in means if step <= (arguments.steps or max(means)))
    print("| steps | minigpt | the tutorial's model |\n|---|---|---|")
    first, losses = 0, []
    for loss in tutorial_losses(run, last, arguments.dense_gradients):
        losses.append(loss)
        step = len(losses)
        if step == last or (step in ROWS and step in means):
            ours = (step * means[step] - first * means[first]) / (step - first)
            print(
                f"| {first + 1} to {step} | {ours:.3f} | {np.mean(losses[first:]):.3f} |",
                flush=True,
            )
            first = step


def epoch_means(run: Run) -> dict[int, float]:
    """Returns the mean loss of the first epoch up to each recorded step."""
    records = [record for record in read_lines(run.steps_file) if record["epoch"] == 1]
    return {0: 0.0} | {record["step"]: record["mean_loss"] for record in records}


class DenseAdam(keras.optimizers.Adam):
    """Keras' Adam on the gradient of each table as one matrix."""

    def apply(self, grads: list, trainable_variables: list | None = None) -> None:
        super().apply([tf.convert_to_tensor(grad) for grad in grads], trainable_variables)


def tutorial_losses(run: Run, steps: int, dense_gradients: bool) -> Iterator[float]:
    """Trains the tutorial's model, and yields the loss of each step."""
    config, corpus = run.config, open_run_corpus(run)
    assert corpus is not None, "the text has changed since the training"
    keras.utils.set_random_seed(config.training.seed)
    vocab_size = corpus.tokenizer.vocab_size
    initial = build_gpt(config.model, vocab_size)
    head_dim, _ = config.model.head_sizes
    sizes = Sizes(
        vocab_size,
        config.model.max_len,
        config.sequence_length,
        config.model.embed_dim,
        config.model.num_heads,
        head_dim,
        config.model.ff_size,
        config.model.num_layers,
        config.training.batch_size,
    )
    optimizer = (DenseAdam if dense_gradients else keras.optimizers.Adam)(
        config.training.learning_rate
    )
    model = tutorial.build(sizes, True, config.model.dropout_rate, optimizer)
    tutorial.set_weights(model, tutorial_weights(initial))
    for step in range(steps):
        batch = training_batch(
            corpus.train.ids, sizes.length, sizes.batch_size, config.training.seed, step
        )
        model.reset_metrics()
        yield float(model.train_on_batch(*batch, return_dict=True)["loss"])


if __name__ == "__main__":
    main()
