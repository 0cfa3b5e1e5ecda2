"""Run directories: created complete, numbered, described."""

import threading

import pytest

from minigpt.config import load_config
from minigpt.errors import UserError
from minigpt.runs.checkpoints import Best, ClockState, TrainingProgress, write_checkpoint
from minigpt.runs.layout import checkpoint_name, checkpoint_paths
from minigpt.runs.run import Run
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.settings import tokenizer_config

CORPUS = {"fingerprint": "0" * 64}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer(["a text"], tokenizer_config(kind="character"))


def test_a_run_that_cannot_be_completed_leaves_nothing(tmp_path, tokenizer, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(tokenizer), "save", fail)
    path = tmp_path / "run"
    for create in (
        lambda: Run.create(path, load_config({}), tokenizer, CORPUS),
        lambda: Run.create_numbered("run", load_config({}), tokenizer, CORPUS, folder=tmp_path),
    ):
        with pytest.raises(UserError, match=r"^run = '.*/run(-1)?': cannot be written: No space"):
            create()
        assert not list(tmp_path.iterdir())


def test_trainings_started_together_get_a_directory_each(tmp_path, tokenizer):
    """Without the second attempt, all but one fail: they find the same free number."""
    (tmp_path / "a-2").write_text("a file")
    start, paths, errors = threading.Barrier(8), [], []

    def create():
        start.wait()
        try:
            run = Run.create_numbered("a", load_config({}), tokenizer, CORPUS, folder=tmp_path)
            paths.append(run.path.name)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(paths) == sorted(f"a-{number}" for number in (1, *range(3, 10)))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*paths, "a-2"])


@pytest.mark.parametrize(
    "make",
    [
        lambda path: (path.mkdir(), (path / "x").touch()),
        lambda path: (path.mkdir(), (path / "config.toml").touch()),
        lambda path: path.touch(),
        lambda path: path.symlink_to("nowhere"),
    ],
)
def test_an_existing_path_is_never_overwritten(make, tmp_path, tokenizer):
    path = tmp_path / "a"
    make(path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match="expected a new or empty directory"):
        Run.create(path, load_config({}), tokenizer, CORPUS)
    assert sorted(tmp_path.rglob("*")) == before


def progress(step, best=None):
    return TrainingProgress(
        step=step,
        epoch=0,
        batch=0,
        clock=ClockState(batches=0, seconds=0.0, epoch_step=0, beside_a_step=0.0),
        given_plan=[],
        plan=[],
        best=best,
        epochs_since_best=0,
        config={},
    )


@pytest.mark.parametrize(
    ("damaged", "used"),
    [([], "2-epoch-1"), ([3], "2-epoch-1"), ([2], "3"), ([2, 3], "1"), ([1, 2, 3], None)],
)
def test_the_best_checkpoint_or_what_is_used_instead(damaged, used, tmp_path, tokenizer, caplog):
    run = Run.create(tmp_path / "a", load_config({}), tokenizer, CORPUS)
    folder = run.checkpoints_folder
    best = Best(val_loss=1.0, epoch=1, checkpoint=checkpoint_name(2, 1))
    write_checkpoint(folder, checkpoint_name(1), {}, progress(1))
    write_checkpoint(folder, best.checkpoint, {}, progress(2, best))
    write_checkpoint(folder, checkpoint_name(3), {}, progress(3, best))
    paths = checkpoint_paths(folder)
    for number in damaged:
        (paths[number - 1] / "manifest.json").write_text("")
    if used is None:
        with pytest.raises(UserError, match=r"run = .*: all of its 3 checkpoints are damaged"):
            run.best_checkpoint()
        return
    name = checkpoint_name(int(used[0])) + used[1:]
    assert run.best_checkpoint().path == folder / name
    lines = [f"{paths[n - 1]}: was damaged and is ignored: " for n in reversed(damaged)]
    assert all(m.startswith(line) for m, line in zip(caplog.messages, lines, strict=False))
    assert caplog.messages[len(lines) :] == [f"{folder / name}: used instead"] * bool(damaged)
