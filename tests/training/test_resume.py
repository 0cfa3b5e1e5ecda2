"""Training that was interrupted, however often and wherever, ends like one that was not."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import keras
import pytest
from tensorflow.python.framework.config import disable_op_determinism

import minigpt
from minigpt.config import dump_config, load_config
from minigpt.errors import UserError
from minigpt.interrupts import Interrupted
from minigpt.runs import checkpoints
from minigpt.runs.checkpoints import newest_checkpoint, read_checkpoint
from minigpt.runs.layout import checkpoint_paths
from minigpt.training import loop
from minigpt.training.loop import TrainingLoop
from minigpt.training.metrics import Records
from tests.conftest import SAMPLED, pair_settings
from tests.same_runs import assert_same, lines
from tests.training.interrupting import killed, settings


def test_interrupted_anywhere_it_ends_the_same(tiny_file, tmp_path, deterministic, no_export):
    training = {"optimizer": "muon", "early_stopping_patience": 3}
    chosen = settings(tiny_file, training=training, sampling=SAMPLED)
    right = minigpt.train(chosen, tmp_path / "right")
    path = tmp_path / "run"
    # Before the first checkpoint; then it is begun again from the first step.
    killed(lambda: minigpt.train(chosen, path), loop, "learning_rate", 4)
    assert list((path / "checkpoints").iterdir()) == []
    for place in [
        # Between two checkpoints of the first epoch, six steps each.
        (loop, "learning_rate", 15),
        # Where metrics are written and samples are not, then both.
        (TrainingLoop, "_show_samples", 1),
        (keras.callbacks.CallbackList, "on_epoch_end", 1),
        # While a checkpoint of the second epoch is being written.
        (checkpoints, "_sha256_of_content", 4),
        (loop, "learning_rate", 9),
        (Records, "add_scores", 1),
    ]:
        killed(lambda: minigpt.resume(path), *place)
    assert_same(minigpt.resume(path), right)


@pytest.mark.slow
@pytest.mark.parametrize(
    "training",
    [
        {"optimizer": "adam", "accumulate_steps": 3, "clip_norm": 1.0, "r_drop": 1.0},
        {"optimizer": "sgd", "precision": "mixed_float16"},
    ],
    ids=["accumulated", "float16"],
)
def test_other_optimizers(training, tiny_file, tmp_path, deterministic, no_export):
    chosen = settings(tiny_file, training=training)
    right = minigpt.train(chosen, tmp_path / "right")
    path, steps = tmp_path / "run", training.get("accumulate_steps", 1)
    killed(lambda: minigpt.train(chosen, path), loop, "learning_rate", 15 * steps)
    killed(lambda: minigpt.resume(path), keras.callbacks.CallbackList, "on_epoch_end", 1)
    assert_same(minigpt.resume(path), right)


@pytest.mark.slow
def test_pairs(pair_file, tmp_path, deterministic, no_export):
    training = {"steps_per_epoch": 12, "checkpoint_every_steps": 5, "deterministic": True}
    training["label_smoothing"] = 0.1
    chosen = pair_settings(pair_file, training=training, model={"dropout_rate": 0.1})
    right = minigpt.train(chosen, tmp_path / "right")
    path = tmp_path / "run"
    killed(lambda: minigpt.train(chosen, path), loop, "learning_rate", 9)
    killed(lambda: minigpt.resume(path), loop, "learning_rate", 13)
    assert_same(minigpt.resume(path), right)


@pytest.mark.slow
def test_a_process_that_is_killed_and_one_that_is_asked_to_stop(tiny_file, tmp_path):
    """Real processes, real signals: SIGKILL, SIGTERM, SIGHUP, in turn, then to the end."""
    chosen = settings(tiny_file, training={"steps_per_epoch": 400, "checkpoint_every_steps": 50})
    right = minigpt.train(chosen, tmp_path / "right")
    disable_op_determinism()
    (tmp_path / "chosen.toml").write_text(dump_config(load_config(chosen)))
    arguments = ["--config", "chosen.toml", "--run", "run"]
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, None):
        process = subprocess.Popen(
            [sys.executable, "-m", "minigpt", "train", *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            # Under `nohup` it would be ignored, and rightly.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )
        try:
            before = set(checkpoint_paths(tmp_path / "run/checkpoints"))
            while number and process.poll() is None:
                if set(checkpoint_paths(tmp_path / "run/checkpoints")) - before:
                    process.send_signal(number)
                    break
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
        assert "Traceback" not in err, err
        if number in (signal.SIGTERM, signal.SIGHUP):
            assert process.returncode == 130, (out, err)
        if number == signal.SIGTERM:
            assert "minigpt train --resume run" in out
            step = re.search(r"Interrupted at step (\d+)", out)[1]
            saved = Path("run/checkpoints") / f"step-{int(step):08}"
            assert f"Saved a checkpoint in {saved}." in out
            assert (tmp_path / saved).is_dir()
        arguments = ["--resume", "run"]
    assert process.returncode == 0, err
    run = minigpt.Run(tmp_path / "run")
    assert [line["epoch"] for line in lines(run.metrics_file)] == [1, 2]
    assert lines(run.metrics_file) == lines(right.metrics_file)
    assert run.samples_file.read_bytes() == right.samples_file.read_bytes()
    ours, theirs = (
        read_checkpoint(r.checkpoints_folder / "step-00000800-epoch-2").arrays for r in (run, right)
    )
    assert {n: a.tobytes() for n, a in ours.items()} == {n: a.tobytes() for n, a in theirs.items()}


class AtBatch(keras.callbacks.Callback):
    """Calls a function with the model at the start of a batch of each epoch."""

    def __init__(self, batch, function):
        super().__init__()
        self.batch, self.function = batch, function

    def on_train_batch_begin(self, batch, logs=None):
        if batch == self.batch:
            self.function(self.model)


def test_an_interrupt_at_the_last_update_of_an_epoch_is_answered_after_its_end(
    tiny_file, tmp_path, capsys
):
    sigterm = AtBatch(19, lambda model: os.kill(os.getpid(), signal.SIGTERM))
    chosen = settings(tiny_file, training={"deterministic": False})
    with pytest.raises(Interrupted):
        minigpt.train(chosen, tmp_path / "run", callbacks=[sigterm])
    out = capsys.readouterr().out
    assert "Stopping after this step" in out
    assert "Saved a checkpoint in " in out
    assert "step-00000020-epoch-1. Resume with" in out
    assert [line["epoch"] for line in lines(tmp_path / "run/metrics.jsonl")] == [1]


@pytest.mark.parametrize("moment", ["begin", "end"])
def test_weights_that_are_no_numbers_are_not_saved(tiny_file, tmp_path, moment):
    """The loss of a step is that of the weights before it: it may be finite where they are not."""

    def spoil(model):
        weight = model.trainable_variables[0]
        weight.assign(weight * float("nan"))

    spoiling = AtBatch(11, spoil)
    if moment == "end":
        spoiling.on_train_batch_end = spoiling.on_train_batch_begin
        spoiling.on_train_batch_begin = lambda *_, **options: None
    chosen = settings(tiny_file, training={"deterministic": False})
    with pytest.raises(UserError, match=r"is nan at step 12; .* the last checkpoint is .*00006$"):
        minigpt.train(chosen, tmp_path / "run", callbacks=[spoiling])
    (path,) = checkpoint_paths(tmp_path / "run/checkpoints")
    for array in read_checkpoint(path).arrays.values():
        assert (array == array).all()


@pytest.mark.slow
def test_two_runs_of_the_default_configuration_have_the_same_bits(tmp_path):
    """In processes of their own, because TensorFlow's threads are set before it is used."""
    changes = ("epochs=1", "steps_per_epoch=12", "max_minutes=none", "deterministic=true")
    settings = [part for change in changes for part in ("--set", f"training.{change}")]
    states = []
    for name in ("a", "b"):
        command = [sys.executable, "-m", "minigpt", "train", "--run", name, *settings]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        checkpoint = newest_checkpoint(tmp_path / name / "checkpoints")
        states.append({key: array.tobytes() for key, array in checkpoint.arrays.items()})
    assert states[0] == states[1] and len(states[0]) > 90
