"""Keras callbacks that the caller passes to `train`."""

import csv

import keras
import pytest

import minigpt
from minigpt.training import loop
from tests.conftest import tiny_settings
from tests.training.interrupting import killed


class Events(keras.callbacks.Callback):
    """Records the events."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_begin(self, logs=None):
        self.seen.append(("begin", self.params["epochs"], self.params["steps"]))

    def on_epoch_begin(self, epoch, logs=None):
        self.seen.append(("epoch", epoch))

    def on_train_batch_begin(self, batch, logs=None):
        self.seen.append(("batch", batch))

    def on_train_batch_end(self, batch, logs=None):
        assert set(logs) == {"loss"}

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(("epoch end", epoch, sorted(logs)))

    def on_train_end(self, logs=None):
        self.seen.append(("end", sorted(logs)))


LOGS = ["loss", "val_bits_per_byte", "val_loss", "val_perplexity"]


def settings(tiny_file, **training):
    training = {"steps_per_epoch": 4, "checkpoint_every_steps": 2, **training}
    model = {"num_layers": 1, "embed_dim": 8}
    return tiny_settings(tiny_file, training=training, model=model, sampling={"prompts": []})


def rows(file):
    return list(csv.DictReader(file.read_text().splitlines()))


def test_keras_callbacks_see_one_fit_though_an_epoch_is_resumed(tiny_file, tmp_path, no_export):
    path, chosen = tmp_path / "run", settings(tiny_file)
    killed(lambda: minigpt.train(chosen, path), loop, "learning_rate", 4)
    events = Events()
    callbacks = [
        events,
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        keras.callbacks.TensorBoard(tmp_path / "board", update_freq=1),
    ]
    run = minigpt.resume(path, callbacks=callbacks)
    assert events.seen == [
        ("begin", 2, 4),
        ("epoch", 0),
        *(("batch", batch) for batch in (2, 3)),
        ("epoch end", 0, LOGS),
        ("epoch", 1),
        *(("batch", batch) for batch in range(4)),
        ("epoch end", 1, LOGS),
        ("end", LOGS),
    ]
    metrics = run.metrics_file.read_text().splitlines()
    assert [row["epoch"] for row in rows(tmp_path / "log.csv")] == ["0", "1"]
    for row, line in zip(rows(tmp_path / "log.csv"), metrics, strict=True):
        assert f'"val_loss": {row["val_loss"]},' in line
    assert list((tmp_path / "board").rglob("events.*"))


@pytest.mark.parametrize("callbacks", [keras.callbacks.Callback(), ["csv"], print])
def test_what_is_not_a_list_of_callbacks_is_refused(callbacks, tmp_path):
    with pytest.raises(TypeError, match="`callbacks` should be a list of keras"):
        minigpt.train("default", tmp_path / "run", callbacks=callbacks)


def test_samples_that_fail_cost_one_line(tiny_file, tmp_path, without_xla, capsys, monkeypatch):
    def fail(*_, **__):
        raise ValueError("filter")

    monkeypatch.setattr("minigpt.generation.base_models.BaseTextModel.samples", fail)
    settings = tiny_settings(
        tiny_file, training={"epochs": 2, "steps_per_epoch": 2}, sampling={"prompts": ["Ana"]}
    )
    run = minigpt.train(settings, tmp_path / "run")
    said = [line for line in capsys.readouterr().out.splitlines() if "no samples" in line]
    for epoch, line in enumerate(said, 1):
        assert line.startswith(f"no samples after epoch {epoch}: ValueError: filter")
    assert len(said) == 2
    assert len(list(run.checkpoints_folder.iterdir())) == 2 and run.model_file.is_file()
