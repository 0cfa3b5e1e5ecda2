"""The portable files of the first updates of a run."""

import shutil
from pathlib import Path

import gguf
import keras
import numpy as np
import pytest

import minigpt
from minigpt.config import load_config
from minigpt.models import build_model
from minigpt.models.state import assign
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.run import Run
from minigpt.targets import run_files
from minigpt.targets.run_files import keeps_snapshots
from tests.conftest import nothing_compiled, nothing_exported, tiny_settings

pytestmark = pytest.mark.usefixtures("no_export")


def settings(file: Path, **training) -> dict:
    """Settings of three epochs of two steps; rows of matrices are stored in int8."""
    short = {"epochs": 3, "steps_per_epoch": 2, "keep_checkpoints": 3, **training}
    model = {"embed_dim": 32, "num_layers": 1}
    return tiny_settings(file, training=short, model=model, sampling={"prompts": []})


@pytest.fixture(scope="module")
def ended(tiny_file, tmp_path_factory) -> tuple[Run, list[list[np.ndarray]]]:
    """A run of three epochs, not exported, which tests copy; and the weights after each update."""
    weights: list[list[np.ndarray]] = []

    class Watch(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            weights.append(self.model.get_weights())

        def on_train_batch_end(self, batch, logs=None):
            weights.append(self.model.get_weights())

    with nothing_exported(), nothing_compiled():
        path = tmp_path_factory.mktemp("snapshots") / "run"
        return minigpt.train(settings(tiny_file), path, callbacks=[Watch()]), weights


@pytest.fixture
def copied(ended, tmp_path) -> Run:
    return Run(shutil.copytree(ended[0].path, tmp_path / "copy"))


def test_snapshots_of_the_first_updates(ended):
    run, weights = ended
    assert list(run.snapshots()) == [0, 1, 3]
    model = build_model(run.config.model, run.load_tokenizer().vocab_size)
    ids = np.arange(2 * 16).reshape(2, 16)
    for step, path in run.snapshots().items():
        found = minigpt.load_portable(path)
        assert found.training["step"] == step
        assert found.training["text_fingerprint"] == run.corpus["fingerprint"]
        tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
        table = tensors["token_embd.weight"]
        assert table.tensor_type.name == "Q8_0"
        values = gguf.quants.dequantize(table.data, table.tensor_type)
        distances = [np.abs(values - other[0]).max() for other in weights]
        # The first update of this run has no effect: its learning rate is 0.
        assert distances[step] == min(distances) < 0.002
        assign(model.weights, weights[step])
        np.testing.assert_allclose(found.logits(ids), model(ids), rtol=0, atol=0.05)


def test_the_default_depends_on_the_size(tiny_run, monkeypatch):
    training = tiny_run.config.training
    assert training.keep_snapshots is None
    model = build_model(tiny_run.config.model, 320)
    assert keeps_snapshots(training, model)
    monkeypatch.setattr(run_files, "MAX_PARAMETERS", model.count_params() - 1)
    assert not keeps_snapshots(training, model)
    for value in (True, False):
        changed = load_config({}, [f"training.keep_snapshots={str(value).lower()}"]).training
        assert keeps_snapshots(changed, model) is value


@pytest.mark.parametrize(("value", "steps"), [("false", [0, 1, 3]), ("true", [0, 1, 3, 10])])
def test_the_setting_can_change_when_training_is_resumed(value, steps, copied, capsys):
    """What exists stays."""
    minigpt.resume(copied, ["training.epochs=5", f"training.keep_snapshots={value}"])
    assert "training.keep_snapshots" in capsys.readouterr().out
    assert list(copied.snapshots()) == steps


def test_files_after_the_checkpoint_are_replaced(copied):
    # Training is resumed after the first epoch, of two updates.
    for path in checkpoint_paths(copied.checkpoints_folder)[1:]:
        (path / "manifest.json").write_text("")
    for step in (0, 1, 3, 100):
        (copied.snapshots_folder / f"step-{step:08}.gguf").write_bytes(b"")
    minigpt.resume(copied)
    sizes = {step: file.stat().st_size for step, file in copied.snapshots().items()}
    assert [step for step in sizes if sizes[step]] == [3] and list(sizes) == [0, 1, 3]
