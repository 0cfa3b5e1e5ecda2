"""scripts/measure_keras_tutorial.py: our training and that of the tutorial's model have the same losses."""

import sys
from pathlib import Path

import numpy as np

import minigpt

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import measure_keras_tutorial


def test_without_dropout_both_learn_the_same(tmp_path):
    words = np.random.default_rng(0).choice(list("abcdefghijklmnop"), 4000)
    (tmp_path / "text.txt").write_text(" ".join(words))
    sizes = ("max_len=8", "embed_dim=16", "head_dim=16", "ff_dim=16", "dropout_rate=0.0")
    run = minigpt.train(
        "imdb_keras_example",
        overrides=[
            "data.source=files",
            "data.val_fraction=0.1",
            f"data.paths=['{tmp_path / 'text.txt'}']",
            "training.epochs=1",
            "training.steps_per_epoch=20",
            "training.batch_size=8",
            "training.jit_compile=false",
            *(f"model.{size}" for size in sizes),
        ],
        run=tmp_path / "run",
    )
    means = measure_keras_tutorial.epoch_means(run)
    # Keras' Adam squares the gradient of each occurrence of a token by itself, ours their sum.
    losses = list(measure_keras_tutorial.tutorial_losses(run, 20, dense_gradients=True))
    assert max(means) == 20 and abs(losses[-1] - losses[0]) > 0.1
    assert np.allclose([step * means[step] for step in range(1, 21)], np.cumsum(losses), rtol=1e-4)
