"""`minigpt train`."""

import json
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from minigpt.cli.train import new_settings
from minigpt.corpus.token_store import open_corpus
from minigpt.runs.layout import run_name
from minigpt.training.messages import WORDS
from minigpt.training.start import config_for_text
from tests.cli.running import SMALL, called, minigpt, refused, started
from tests.conftest import tiny_text


def test_train_on_a_text_alone(trained):
    folder, done = trained
    assert done.returncode == 0, done.stderr
    # Nothing of TensorFlow's start-up reaches the user.
    assert done.stderr == ""
    out = done.stdout
    # One sentence says what is trained; the settings are in config.toml.
    (sentence,) = re.findall(r"^About [\d,]+ parameters, .*", out, re.M)
    assert re.search(r"of (\d+) characters, about [\d.]+ passes, at most 10 minutes\.$", sentence)
    vocabulary = re.search(r"vocabulary of \d+", sentence)[0]
    assert f"character {vocabulary} " in out.replace(",", " ") and "max_minutes = " not in out
    assert "\n\n\n" not in out
    for what in ("Baselines", "uniform ", "unigram ", "parameters", "tokens per parameter"):
        assert what in out
    assert "epoch 2/2: training loss" in out
    assert "minigpt sample runs/book-1" in out
    assert (folder / "runs/book-1/saved_model/saved_model.pb").is_file()
    assert 'kind = "character"' in (folder / "runs/book-1/config.toml").read_text()


def test_minutes_are_the_setting(trained):
    folder, _ = trained
    done = called("train", "--text", "book.txt", "--minutes", "2.5", "--plan", "--json", cwd=folder)
    assert json.loads(done.stdout)["training"]["max_minutes"] == 2.5
    for options in (["--text", "book.txt"], ["--resume", "runs/book-1"]):
        (line,) = refused("train", *options, "--minutes", "-1", cwd=folder)
        assert line == "minigpt: --minutes -1.0: should be greater than 0"


def test_the_closing_commands_work(trained):
    folder, done = trained
    all_lines = done.stdout.strip().splitlines()
    sample, export = (shlex.split(line.split(": ")[1]) for line in all_lines[-3:-1])
    resume = shlex.split(re.search("`(.*)`", all_lines[-1])[1])
    done = minigpt(*sample[sample.index("sample") :], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"seed \d+\n", done.stderr)
    assert done.stdout.endswith("\n")
    done = called(*export[export.index("export") :], cwd=folder)
    page = folder / "book-1.html"
    assert done.stdout.endswith(f"\nOpen it in a browser: {page.as_uri()}\n") and page.is_file()
    page.unlink()
    # The doctor's, which doubles what ended the run.
    changes = ["--set", "training.epochs=4"]
    assert resume == ["minigpt", "train", "--resume", "runs/book-1", *changes]
    # It is the only advice.
    assert shlex.join(resume) not in "\n".join(all_lines[:-1])


def test_the_words_are_explained_once(trained):
    """Every word of the figures is explained, only in the first run of a folder; docs/words.md has all."""
    out = trained[1].stdout
    assert out.count(WORDS) == 1
    listed = re.findall(r"^  (\[?[a-z]+(?: [a-z]+)*)", WORDS, re.M)
    assert {"token", "parameters", "epoch", "validation loss", "bits per byte"} <= set(listed)
    assert {"uniform", "unigram", "held out", "tokenizer", "pass"} <= set(listed)
    table = Path("docs/words.md").read_text(encoding="utf-8")
    named = ",".join(re.findall(r"^\| (.*?) \|", table, re.M))
    assert [word for word in listed if word[0] != "[" and word not in named] == []


def test_the_name_of_a_run():
    assert run_name(None, ["b c.txt"]) == "b-c"


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
    arguments = ("train", "--text", "big.txt", "--base", "none", "--run", "run")
    with started(*arguments, cwd=tmp_path) as process:
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


def test_without_options_the_default_configuration_is_read():
    """Its model has parts that are no defaults of other configurations."""
    for text, overrides, taps in (
        ([], [], 4),
        ([__file__], [], 0),
        ([], ["training.init_from=runs/gpt2"], 0),
    ):
        assert new_settings(None, text, None, overrides).model.convolution == taps
