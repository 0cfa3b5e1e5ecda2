"""A training that was interrupted, however often and wherever, ends like one that was not."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tensorflow.python.framework.config import disable_op_determinism

import minigpt
from minigpt.config import dump_config, load_config
from minigpt.errors import UserError
from minigpt.interrupts import Interrupted
from minigpt.runs import checkpoints
from minigpt.runs.checkpoints import checkpoint_paths, read_checkpoint
from minigpt.runs.lock import run_lock
from minigpt.training.callbacks.checkpointing import Checkpointing
from minigpt.training.callbacks.learning_rate import LearningRate
from minigpt.training.callbacks.recorder import Recorder
from minigpt.training.callbacks.stop_at_nan import StopAtNaN
from tests.conftest import pair_settings, tiny_settings
from tests.same_runs import assert_same, lines


class Killed(BaseException):
    """Stands for the end of a process: nobody catches it."""


@pytest.fixture
def deterministic():
    """The rest of the tests is not to be slowed down by `training.deterministic`."""
    yield
    disable_op_determinism()


def settings(file: Path, **sections) -> dict:
    training = {
        "steps_per_epoch": 20,
        "checkpoint_every_steps": 6,
        "deterministic": True,
        **sections.pop("training", {}),
    }
    model = {"dropout_rate": 0.1, "attention_dropout_rate": 0.1, "num_layers": 1}
    return tiny_settings(file, training=training, model=model, **sections)


def killed(function, owner, name: str, call: int) -> None:
    """Calls a function that dies when `owner.name` is called for so many times."""
    original, calls = getattr(owner, name), 0

    def counting(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return original(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(owner, name, counting)
        function()


def test_interrupted_anywhere_it_ends_the_same(tiny_file, tmp_path, deterministic, no_export):
    chosen = settings(tiny_file, training={"optimizer": "muon", "early_stopping_patience": 3})
    right = minigpt.train(chosen, tmp_path / "right")
    path = tmp_path / "run"
    # Before the first checkpoint; then it is begun again from the first step.
    killed(lambda: minigpt.train(chosen, path), LearningRate, "on_train_batch_begin", 4)
    assert list((path / "checkpoints").iterdir()) == []
    for place in [
        # Between two checkpoints of the first epoch, six steps each.
        (LearningRate, "on_train_batch_begin", 15),
        # Where samples are written and metrics are not, then the other way round.
        (Recorder, "on_epoch_end", 1),
        (Checkpointing, "on_epoch_end", 1),
        # While a checkpoint of the second epoch is being written.
        (checkpoints, "_sha256_of_content", 4),
        (LearningRate, "on_train_batch_begin", 9),
        (Checkpointing, "on_epoch_end", 1),
    ]:
        killed(lambda: minigpt.resume(path), *place)
    assert_same(minigpt.resume(path), right)


@pytest.mark.slow
@pytest.mark.parametrize(
    "training",
    [
        {"optimizer": "adam", "accumulate_steps": 3, "clip_norm": 1.0, "warmup_steps": 5},
        {"optimizer": "sgd", "precision": "mixed_float16"},
    ],
    ids=["accumulated", "float16"],
)
def test_other_optimizers(training, tiny_file, tmp_path, deterministic, no_export):
    chosen = settings(tiny_file, training=training)
    right = minigpt.train(chosen, tmp_path / "right")
    path, steps = tmp_path / "run", training.get("accumulate_steps", 1)
    killed(lambda: minigpt.train(chosen, path), LearningRate, "on_train_batch_begin", 15 * steps)
    killed(lambda: minigpt.resume(path), Checkpointing, "on_epoch_end", 1)
    assert_same(minigpt.resume(path), right)


@pytest.mark.slow
def test_pairs(pair_file, tmp_path, deterministic, no_export):
    training = {"steps_per_epoch": 12, "checkpoint_every_steps": 5, "deterministic": True}
    training["label_smoothing"] = 0.1
    chosen = pair_settings(pair_file, training=training, model={"dropout_rate": 0.1})
    right = minigpt.train(chosen, tmp_path / "right")
    path = tmp_path / "run"
    killed(lambda: minigpt.train(chosen, path), LearningRate, "on_train_batch_begin", 9)
    killed(lambda: minigpt.resume(path), LearningRate, "on_train_batch_begin", 13)
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


@pytest.fixture(scope="module")
def ended(tiny_file, tmp_path_factory) -> Path:
    """A finished training; tests copy it."""
    training = {"steps_per_epoch": 10, "checkpoint_every_steps": 4, "keep_checkpoints": 3}
    path = tmp_path_factory.mktemp("ended") / "run"
    return minigpt.train(
        settings(tiny_file, training=training | {"deterministic": False}), path
    ).path


@pytest.fixture
def copied(ended, tmp_path) -> Path:
    return Path(shutil.copytree(ended, tmp_path / "copy"))


def test_a_finished_run_is_extended(copied, capsys):
    said_before = (copied / "samples.jsonl").read_bytes()
    model = (copied / "model.keras").read_bytes()
    minigpt.resume(copied)
    assert "has ended at step 20. Extend it with: minigpt train --resume" in capsys.readouterr().out
    assert (copied / "model.keras").read_bytes() == model
    run = minigpt.resume(copied, ["training.epochs=4", "training.learning_rate=0.02"])
    out = capsys.readouterr().out
    assert "training.epochs changed from 2 to 4" in out
    assert "training.learning_rate changed from 0.01 to 0.02" in out
    metrics = lines(run.metrics_file)
    assert [line["epoch"] for line in metrics] == [1, 2, 3, 4]
    assert [line["step"] for line in metrics] == [10, 20, 30, 40]
    assert run.samples_file.read_bytes().startswith(said_before)
    assert run.config.training.epochs == 4
    best = min(line["val_loss"] for line in metrics)
    assert minigpt.evaluate_run(run).loss == pytest.approx(best, rel=1e-5)
    assert best < metrics[1]["val_loss"]
    seconds = [json.loads(line)["seconds"] for line in run.metrics_file.read_text().splitlines()]
    assert seconds == sorted(seconds)


def test_the_best_of_an_earlier_end_stays_though_its_checkpoint_breaks(copied, no_export):
    """model.keras holds it; the epochs of the extension are worse."""
    before = lines(copied / "metrics.jsonl")
    model = (copied / "model.keras").read_bytes()
    best = min(before, key=lambda line: line["val_loss"])["epoch"]
    assert best == 2
    minigpt.resume(copied, ["training.epochs=3", "training.learning_rate=3.0"])
    assert lines(copied / "metrics.jsonl")[2]["val_loss"] > before[1]["val_loss"]
    assert (copied / "model.keras").read_bytes() == model
    (copied / "checkpoints/step-00000020-epoch-2" / checkpoints.STATE).write_bytes(b"")
    minigpt.resume(copied, ["training.epochs=4"])
    assert lines(copied / "metrics.jsonl")[3]["val_loss"] > before[1]["val_loss"]
    assert (copied / "model.keras").read_bytes() == model


def test_killed_between_a_better_epoch_and_its_checkpoint(copied, no_export):
    """No model.keras is left that is not the best."""
    killed(
        lambda: minigpt.resume(copied, ["training.epochs=3"]),
        minigpt.training.callbacks.checkpointing,
        "write_checkpoint",
        3,
    )
    metrics = lines(copied / "metrics.jsonl")
    assert metrics[2]["val_loss"] < metrics[1]["val_loss"]
    newest = checkpoint_paths(copied / "checkpoints")[-1]
    assert read_checkpoint(newest).progress.best.epoch == 2
    assert not (copied / "model.keras").exists()
    assert minigpt.evaluate_run(minigpt.Run(copied)).loss == pytest.approx(
        metrics[1]["val_loss"], rel=1e-5
    )


def test_saving_that_takes_long_is_said(copied, capsys, no_export, monkeypatch):
    # Most of so short a training is compiling.
    monkeypatch.setattr("minigpt.training.messages.MIN_INTERVAL", 10_000)
    minigpt.resume(copied, ["training.epochs=3", "training.checkpoint_every_steps=1"])
    assert "s: training.checkpoint_every_steps = 1 saves very often." in capsys.readouterr().out


@pytest.mark.slow
def test_a_training_that_time_has_cut_is_given_more(tiny_file, tmp_path, capsys):
    limited = {"max_minutes": 0.05, "steps_per_epoch": 100_000, "deterministic": False}
    run = minigpt.train(settings(tiny_file, training=limited), tmp_path / "run")
    (line,) = lines(run.metrics_file)
    minigpt.resume(run.path)
    assert "--set training.max_minutes=0.1" in capsys.readouterr().out
    minigpt.resume(run.path, ["training.max_minutes=0.3", "training.steps_per_epoch=100000"])
    first, second = lines(run.metrics_file)
    assert first == line and second["epoch"] == 2
    assert first["step"] < second["step"] < 100_000
    # Its first epoch counts as what it was, not as a whole one.
    out = capsys.readouterr().out
    assert f"Ended after {second['step']:,} of {first['step'] + 100_000:,} steps" in out


def test_a_second_interrupt_while_the_first_is_being_answered(
    tiny_file, tmp_path, monkeypatch, capsys
):
    """What was saved before stays, and the line that says how to go on comes all the same."""
    written = checkpoints.write_checkpoint

    def interrupted(folder, name, arrays, progress):
        if name == "step-00000009":
            raise KeyboardInterrupt
        return written(folder, name, arrays, progress)

    monkeypatch.setattr("minigpt.training.callbacks.checkpointing.write_checkpoint", interrupted)
    begin = LearningRate.on_train_batch_begin

    def interrupts(self, batch, logs=None):
        begin(self, batch, logs)
        if batch == 8:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(LearningRate, "on_train_batch_begin", interrupts)
    with pytest.raises(Interrupted):
        minigpt.train(settings(tiny_file, training={"deterministic": False}), tmp_path / "run")
    out = capsys.readouterr().out
    assert "Interrupted at step 9 of 40. Saved a checkpoint in" in out
    assert "step-00000006. Resume with: minigpt train --resume" in out
    assert len(checkpoint_paths(tmp_path / "run/checkpoints")) == 1


def test_an_interrupt_at_the_last_update_of_an_epoch_is_answered_after_its_end(
    tiny_file, tmp_path, monkeypatch, capsys
):
    begin = LearningRate.on_train_batch_begin

    def interrupts(self, batch, logs=None):
        begin(self, batch, logs)
        if batch == 19:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(LearningRate, "on_train_batch_begin", interrupts)
    with pytest.raises(Interrupted):
        minigpt.train(settings(tiny_file, training={"deterministic": False}), tmp_path / "run")
    out = capsys.readouterr().out
    assert "Stopping after the validation of this epoch; Ctrl-C again stops immediately." in out
    assert "Saved a checkpoint in " in out
    assert "step-00000020-epoch-1. Resume with" in out
    assert [line["epoch"] for line in lines(tmp_path / "run/metrics.jsonl")] == [1]


def test_a_state_that_lies_beyond_its_epoch_is_refused(copied):
    newest = read_checkpoint(checkpoint_paths(copied / "checkpoints")[-1])
    progress = newest.progress.model_copy(update={"batch": 10, "epoch": 1})
    checkpoints.write_checkpoint(copied / "checkpoints", "step-00000030", newest.arrays, progress)
    with pytest.raises(UserError, match="has batch 10 of an epoch of 10; should be less"):
        minigpt.resume(copied)


def test_what_killed_processes_left_half_written_is_cleared_away(copied, no_export):
    before = {path.name for path in copied.iterdir()}
    (copied / ".saved_model.77.new").mkdir()
    (copied / ".config.toml.77.tmp").write_text("x")
    (copied / "checkpoints/.step-00000099.77.tmp").mkdir()
    with (copied / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 3, "step"')
    run = minigpt.resume(copied, ["training.epochs=3"])
    assert {path.name for path in copied.iterdir()} == before - {"model.keras"}
    assert not list((copied / "checkpoints").glob(".*"))
    assert [line["epoch"] for line in lines(run.metrics_file)] == [1, 2, 3]


def test_a_finished_run_without_checkpoints_is_not_begun_again(copied):
    shutil.rmtree(copied / "checkpoints")
    before = (copied / "metrics.jsonl").read_bytes(), (copied / "model.keras").read_bytes()
    with pytest.raises(UserError, match="a finished model and no checkpoint to resume from"):
        minigpt.resume(copied, ["training.epochs=3"])
    after = (copied / "metrics.jsonl").read_bytes(), (copied / "model.keras").read_bytes()
    assert after == before


def test_what_cannot_change_is_refused_by_name(copied):
    changes = [
        "model.embed_dim=32",
        "tokenizer.vocab_size=300",
        "data.val_fraction=0.2",
        "training.batch_size=4",
        "training.epochs=9",
        "sampling.top_k=3",
    ]
    before = (copied / "config.toml").read_bytes()
    with pytest.raises(UserError) as caught:
        minigpt.resume(copied, changes)
    assert [problem.split(" = ")[0] for problem in caught.value.problems] == [
        "data.val_fraction",
        "tokenizer.vocab_size",
        "model.embed_dim",
        "training.batch_size",
    ]
    assert "was started with 16" in str(caught.value)
    assert (copied / "config.toml").read_bytes() == before


def test_a_config_that_was_edited_is_noticed(copied, capsys):
    file = copied / "config.toml"
    file.write_text(file.read_text().replace("batch_size = 8", "batch_size = 4"))
    with pytest.raises(UserError, match=r"training.batch_size = 4: cannot change"):
        minigpt.resume(copied)


def test_a_broken_checkpoint_is_named_and_the_one_before_used(copied, capsys, no_export):
    newest = checkpoint_paths(copied / "checkpoints")[-1]
    state = newest / checkpoints.STATE
    state.write_bytes(state.read_bytes()[:-1])
    metrics, samples = lines(copied / "metrics.jsonl"), (copied / "samples.jsonl").read_bytes()
    run = minigpt.resume(copied)
    out = capsys.readouterr().out
    assert f"{newest}: was damaged and is ignored: {checkpoints.STATE} has" in out
    assert "Resuming    at step 16 of 20" in out
    assert read_checkpoint(newest).progress.step == 20
    assert [line["epoch"] for line in lines(run.metrics_file)] == [1, 2]
    assert lines(run.metrics_file)[0] == metrics[0]
    assert samples.splitlines()[:2] == run.samples_file.read_bytes().splitlines()[:2]


def test_without_a_sound_checkpoint_nothing_is_begun_again_in_silence(copied):
    for path in checkpoint_paths(copied / "checkpoints"):
        (path / checkpoints.MANIFEST).write_text("")
    with pytest.raises(UserError, match=r"no undamaged checkpoint \(4 are damaged\)"):
        minigpt.resume(copied)
    assert len(checkpoint_paths(copied / "checkpoints")) == 4


def test_a_text_that_has_changed_is_refused(tiny_file, copied):
    original = tiny_file.read_text()
    try:
        tiny_file.write_text(original.replace("Ana", "Eva"))
        with pytest.raises(UserError, match="has changed since training began"):
            minigpt.resume(copied, ["training.epochs=3"])
    finally:
        tiny_file.write_text(original)


def test_the_second_process_is_refused(copied):
    with run_lock(copied), pytest.raises(UserError, match=f"by process {os.getpid()}"):
        minigpt.resume(copied)


def test_an_interrupted_run_can_be_used_as_it_is(tiny_file, tmp_path, no_export):
    """The best model so far is in its checkpoints."""
    chosen = settings(tiny_file, training={"deterministic": False})
    path = tmp_path / "run"
    killed(lambda: minigpt.train(chosen, path), LearningRate, "on_train_batch_begin", 30)
    run = minigpt.Run(path)
    (line,) = lines(run.metrics_file)
    assert minigpt.evaluate_run(run).loss == pytest.approx(line["val_loss"], rel=1e-5)
    assert isinstance(minigpt.load(run).generate("Ana")[0], str)


def test_what_is_used_in_place_of_a_broken_checkpoint_is_said(copied):
    """The newest was the best: the one before names a best that is still there."""
    (copied / "model.keras").unlink()
    newest = checkpoint_paths(copied / "checkpoints")[-1]
    (newest / checkpoints.STATE).write_bytes(b"")
    for use in (minigpt.load, minigpt.evaluate_run):
        said: list[str] = []
        use(minigpt.Run(copied), report=said.append)
        assert said[0].startswith(
            f"{newest}: was damaged and is ignored: {checkpoints.STATE} has 0 bytes"
        )
        assert said[1:] == [f"{newest.with_name('step-00000010-epoch-1')}: used instead"]


def test_weights_that_are_no_numbers_are_not_saved(tiny_file, tmp_path, monkeypatch):
    """The loss of a step is that of the weights before it: it may be finite where they are not."""

    def spoil(self, batch, logs=None):
        if batch == 11:
            weight = self.model.trainable_variables[0]
            weight.assign(weight * float("nan"))

    monkeypatch.setattr(StopAtNaN, "on_train_batch_end", spoil)
    with pytest.raises(UserError, match=r"is nan at step 12; .* the last checkpoint is .*00006$"):
        minigpt.train(settings(tiny_file, training={"deterministic": False}), tmp_path / "run")
    (path,) = checkpoint_paths(tmp_path / "run/checkpoints")
    for array in read_checkpoint(path).arrays.values():
        assert (array == array).all()
