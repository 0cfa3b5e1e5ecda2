"""`minigpt train`."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minigpt.cli.train import new_settings
from minigpt.corpus.fit import config_for_text
from minigpt.corpus.token_store import open_corpus
from tests.cli.running import SMALL, called, minigpt, refused, started
from tests.conftest import tiny_text


def test_train_on_a_text_alone(trained):
    folder, done = trained
    assert done.returncode == 0, done.stderr
    # Nothing of TensorFlow's start-up reaches the user.
    assert done.stderr == ""
    out = done.stdout
    # What was chosen is said; what was set by hand is not among it.
    chosen = out[out.index("Chosen for") :].splitlines()[0]
    assert f"{len(tiny_text().encode()):,} bytes" in chosen
    for what in ("tokenizer.kind = 'character'", "model.dropout_rate", "training.max_minutes = 10"):
        assert what in out
    assert "model.embed_dim = " not in out
    for what in ("Baselines", "uniform ", "unigram ", "parameters", "tokens per parameter"):
        assert what in out
    assert "epoch 2/2: training loss" in out
    assert "minigpt sample runs/book-1" in out
    assert (folder / "runs/book-1/saved_model/saved_model.pb").is_file()
    assert 'kind = "character"' in (folder / "runs/book-1/config.toml").read_text()


def test_the_closing_command_works(trained):
    folder, done = trained
    command = done.stdout.strip().splitlines()[-1].split(": ")[1].split()
    done = minigpt(*command[command.index("sample") :], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.endswith("\n")


def test_a_text_of_many_characters_keeps_them_all(tmp_path):
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 2000))) * 2
    (tmp_path / "book.txt").write_text(text, encoding="utf-8")
    chosen = config_for_text([str(tmp_path / "book.txt")])
    assert (chosen.tokenizer.kind, chosen.tokenizer.vocab_size) == ("character", 2002)
    corpus = open_corpus(chosen.data, chosen.tokenizer)
    assert len(corpus.tokenizer.characters) == 2000
    assert not corpus.token_counts[list(corpus.tokenizer.byte_ids)].any()


def test_a_loss_that_is_no_number_ends_the_training(trained):
    folder, _ = trained
    (line,) = refused(
        *("train", "--text", "book.txt", "--run", "diverged", *SMALL, "--set=training.epochs=50"),
        *("--set=training.optimizer=sgd", "--set=training.learning_rate=1e30"),
        cwd=folder,
    )
    assert "training.learning_rate = 1e+30" in line and "at step" in line
    assert not (folder / "diverged/model.keras").exists()


def test_ctrl_c_saves_the_state_and_says_what_to_do(trained):
    folder, _ = trained
    endless = ("--set=training.steps_per_epoch=1000000", "--set=training.checkpoint_every_steps=20")
    command = ("train", "--text", "book.txt", "--run", "stopped", *SMALL, *endless)
    with started(*command, cwd=folder) as process:
        while process.poll() is None and not list(folder.glob("stopped/checkpoints/step-*")):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "Saved a checkpoint in stopped/checkpoints/step-" in out
    assert "minigpt train --resume stopped" in out
    assert "minigpt sample stopped" in out
    done = called("sample", "stopped", "--prompt", "Ana", cwd=folder)
    assert done.returncode == 0, done.stderr


def wait_for_library(process: subprocess.Popen, name: str) -> None:
    """Returns when the process has loaded a library whose path contains `name`."""
    maps = Path(f"/proc/{process.pid}/maps")
    if not maps.exists():
        pytest.skip("needs /proc, which only Linux has")
    while name not in maps.read_text():
        assert process.poll() is None
        time.sleep(0.01)


@pytest.mark.parametrize("moment", ["pydantic_core", "tensorflow", "learning the "])
def test_interrupted_before_training_leaves_nothing(moment, tmp_path):
    """While it imports a library, or once it has printed that."""
    (tmp_path / "big.txt").write_text(tiny_text(30_000))
    with started("train", "--text", "big.txt", "--run", "run", cwd=tmp_path) as process:
        if moment == "learning the ":
            assert process.stdout is not None
            assert any(line.startswith(moment) for line in process.stdout)
        else:
            wait_for_library(process, moment)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "minigpt: interrupted; no file was written\n"
    assert [path.name for path in tmp_path.iterdir()] == ["big.txt"]


def test_the_training_script_is_the_same_function(trained):
    folder, _ = trained
    script = Path(__file__).resolve().parents[2] / "scripts" / "train.py"
    done = subprocess.run(
        [sys.executable, str(script), "--set", "model.max_len=0"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "model.max_len = 0" in done.stderr


def test_without_options_the_default_configuration_is_read():
    """Its model has parts that are no defaults of other configurations."""
    for text, overrides, taps in (
        ([], [], 4),
        ([__file__], [], 0),
        ([], ["training.init_from=runs/gpt2"], 0),
    ):
        assert new_settings(None, text, None, overrides).model.convolution == taps
