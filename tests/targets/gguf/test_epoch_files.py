"""The portable files of the epochs of a run."""

import shutil
from pathlib import Path

import gguf
import keras
import numpy as np
import pytest

import minigpt
from minigpt.config import load_config
from minigpt.models import build_model
from minigpt.models.state import assign, group_of
from minigpt.runs.checkpoints import read_checkpoint
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.run import Run
from minigpt.targets import run_files
from minigpt.targets.run_files import keeps_epochs
from tests.conftest import nothing_compiled, nothing_exported, tiny_settings
from tests.run_files import records

pytestmark = pytest.mark.usefixtures("no_export")


def settings(file: Path, **training) -> dict:
    """Settings of three epochs of two steps; rows of matrices are stored in int8."""
    short = {"epochs": 3, "steps_per_epoch": 2, "keep_checkpoints": 3, **training}
    model = {"embed_dim": 32, "num_layers": 1}
    return tiny_settings(file, training=short, model=model, sampling={"prompts": []})


def names(run: Run) -> list[str]:
    return [file.name for file in run.epoch_files()]


def numbered(*epochs: int) -> list[str]:
    return [f"epoch-{epoch:04}.gguf" for epoch in epochs]


@pytest.fixture(scope="module")
def ended(tiny_file, tmp_path_factory) -> tuple[Run, list[np.ndarray]]:
    """A run of three epochs, not exported, which tests copy; and a matrix after each update."""
    tables: list[np.ndarray] = []

    class Watch(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            tables.append(np.array(self.model.weights[0]))

        def on_train_batch_end(self, batch, logs=None):
            tables.append(np.array(self.model.weights[0]))

        def on_epoch_end(self, epoch, logs=None):
            """Changes the weights after the validation, before the checkpoint."""
            weight = self.model.weights[0]
            weight.assign(weight / 2)

    with nothing_exported(), nothing_compiled():
        path = tmp_path_factory.mktemp("epochs") / "run"
        return minigpt.train(settings(tiny_file), path, callbacks=[Watch()]), tables


@pytest.fixture
def copied(ended, tmp_path) -> Run:
    return Run(shutil.copytree(ended[0].path, tmp_path / "copy"))


def test_every_epoch_has_the_weights_and_the_facts_of_its_checkpoint(ended):
    run, _ = ended
    assert names(run) == numbered(1, 2, 3)
    model = build_model(run.config.model, run.load_tokenizer().vocab_size)
    ids = np.arange(2 * 16).reshape(2, 16)
    logits = []
    paths = checkpoint_paths(run.checkpoints_folder)
    for file, path, line in zip(run.epoch_files(), paths, records(run.metrics_file), strict=True):
        arrays = group_of(read_checkpoint(path).arrays)
        tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
        table = tensors["token_embd.weight"]
        assert table.tensor_type.name == "Q8_0"
        difference = gguf.quants.dequantize(table.data, table.tensor_type) - arrays[0]
        # Half a step of each block's scale, which is a float16.
        steps = np.abs(arrays[0]).max(axis=1, keepdims=True) / 127
        assert np.all(np.abs(difference) <= 0.57 * steps)
        assign(model.weights, arrays)
        logits.append(np.asarray(model(ids)))
        found = minigpt.load_portable(file)
        np.testing.assert_allclose(found.logits(ids), logits[-1], rtol=0, atol=0.05)
        scores = {name: line[name] for name in ("step", "epoch", "val_loss", "val_bits_per_byte")}
        assert found.training == {**scores, "text_fingerprint": run.corpus["fingerprint"]}
    # The epochs differ by more than the tolerance.
    assert np.abs(logits[0] - logits[1]).max() > 0.2 < np.abs(logits[1] - logits[2]).max()


def test_snapshots_of_the_first_updates(ended):
    run, tables = ended
    assert list(run.snapshots()) == [0, 1, 3]
    for step, path in run.snapshots().items():
        training = minigpt.load_portable(path).training
        assert (training["step"], training["epoch"]) == (step, None)
        tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
        table = tensors["token_embd.weight"]
        values = gguf.quants.dequantize(table.data, table.tensor_type)
        distances = [np.abs(values - other).max() for other in tables]
        # The first update of this run has no effect: its learning rate is 0.
        assert distances[step] == min(distances) < 0.002


def test_the_default_depends_on_the_size(tiny_run, monkeypatch):
    training = tiny_run.config.training
    assert training.keep_epochs is None
    model = build_model(tiny_run.config.model, 320)
    assert keeps_epochs(training, model)
    monkeypatch.setattr(run_files, "MAX_PARAMETERS", model.count_params() - 1)
    assert not keeps_epochs(training, model)
    for value in (True, False):
        changed = load_config({}, [f"training.keep_epochs={str(value).lower()}"]).training
        assert keeps_epochs(changed, model) is value


def test_without(copied, capsys):
    """It can change when training is resumed; what exists stays."""
    minigpt.resume(copied, ["training.epochs=4", "training.keep_epochs=false"])
    assert "training.keep_epochs" in capsys.readouterr().out
    assert names(copied) == numbered(1, 2, 3)
    minigpt.resume(copied, ["training.epochs=5", "training.keep_epochs=true"])
    assert names(copied) == numbered(1, 2, 3, 5)


def test_files_after_the_checkpoint_are_replaced(copied):
    damage_all_but_the_first(copied)
    for file in copied.epoch_files():
        file.write_bytes(b"")
    (copied.epochs_folder / "epoch-0009.gguf").write_bytes(b"")
    minigpt.resume(copied)
    assert names(copied) == numbered(1, 2, 3)
    assert [file.stat().st_size > 0 for file in copied.epoch_files()] == [False, True, True]


def damage_all_but_the_first(run: Run) -> None:
    """Damages checkpoints, so that training is resumed after the first epoch."""
    for path in checkpoint_paths(run.checkpoints_folder)[1:]:
        (path / "manifest.json").write_text("")
