"""The commands, as a user calls them: in a process of their own."""

import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
import typer

from minigpt.cli.app import app, run_command
from minigpt.config import shipped_configs
from minigpt.corpus.fit import config_for_text
from minigpt.corpus.token_store import open_corpus
from minigpt.inference.loading import load
from tests.conftest import tiny_text


def minigpt(*arguments, cwd=None, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "minigpt", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        **options,
    )


def called(*arguments, cwd=None, input="") -> subprocess.CompletedProcess:
    """The same in this process, which has TensorFlow already."""
    out, err = io.StringIO(), io.StringIO()
    command = ["minigpt", *map(str, arguments)]
    with (
        contextlib.chdir(cwd or "."),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(input.encode()))),
        mock.patch.object(sys, "argv", command),
        pytest.raises(SystemExit) as ended,
    ):
        run_command()
    status = ended.value.code or 0
    return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())


def refused(*arguments, cwd) -> list[str]:
    """The lines of a command that must refuse what it was given."""
    done = called(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stderr
    return done.stderr.splitlines()


SMALL = [
    f"--set={setting}"
    for setting in (
        "model.max_len=16",
        "model.embed_dim=16",
        "model.num_heads=2",
        "model.num_layers=1",
        "training.epochs=2",
        "training.steps_per_epoch=10",
        "training.batch_size=8",
        "sampling.max_new_tokens=10",
    )
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    """An empty folder in which `minigpt train --text book.txt` has run."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "book.txt").write_text(tiny_text(), encoding="utf-8")
    return folder, minigpt("train", "--text", "book.txt", *SMALL, cwd=folder)


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


def test_sample_json(trained):
    folder, _ = trained
    arguments = ("sample", "runs/book-1", "--json", "--max-new-tokens", 7, "--seed", 3)
    done = called(*arguments, "--prompt", "Ana", "--prompt", "", "--num-samples", 2, cwd=folder)
    assert done.stderr == ""
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(sample["prompt"], sample["seed"]) for sample in found] == [
        ("Ana", 3),
        ("Ana", 4),
        ("", 3),
        ("", 4),
    ]
    assert all(set(sample) == {"prompt", "text", "seed", "tokens"} for sample in found)
    assert all(len(sample["tokens"]) <= 7 for sample in found)
    again = called(*arguments[:-1], 4, "--prompt", "Ana", cwd=folder)
    assert json.loads(again.stdout) == found[1]


def test_sample_warns_of_what_the_tokenizer_has_never_seen(trained):
    folder, _ = trained
    done = called("sample", "runs/book-1", "--prompt", "Ana ☃☃", cwd=folder)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "2 of its tokens are unknown" in done.stderr
    assert done.stdout.startswith("Ana ☃☃")
    with pytest.warns(UserWarning, match="prompt 'Ana ☃☃': 2 of its tokens are unknown"):
        load(folder / "runs/book-1").generate("Ana ☃☃", max_new_tokens=1)


def test_a_text_of_many_characters_keeps_them_all(tmp_path):
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 2000))) * 3
    (tmp_path / "book.txt").write_text(text, encoding="utf-8")
    chosen = config_for_text([str(tmp_path / "book.txt")])
    assert (chosen.tokenizer.kind, chosen.tokenizer.vocab_size) == ("character", 2003)
    corpus = open_corpus(chosen.data, chosen.tokenizer)
    assert corpus.train.unknown_tokens == corpus.val.unknown_tokens == 0


def test_output_that_cannot_hold_a_text_ends_nothing(trained):
    folder, _ = trained
    arguments = ("sample", "runs/book-1", "--prompt", "Ana \N{SNOWMAN}", "--max-new-tokens", 1)
    done = minigpt(*arguments, cwd=folder, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and done.stdout.startswith("Ana ?")


@pytest.mark.parametrize(
    "arguments",
    [("sample", "x" * 300), ("train", "--run", "x" * 300), ("train", "--text", "x" * 300)],
    ids=["RUN", "--run", "--text"],
)
def test_a_name_that_is_too_long(arguments, tmp_path):
    (line,) = refused(*arguments, cwd=tmp_path)
    assert "xxx" in line and ("too long" in line or "no such file" in line)


def test_tokenize(trained):
    folder, _ = trained
    text = "Ana sat ☃."
    done = called("tokenize", "runs/book-1", "--text", text, cwd=folder)
    pieces, ids, counts = done.stdout.splitlines()
    assert pieces == "A|n|a| |s|a|t| |[UNK]|."
    assert counts == "10 tokens, 12 bytes, 1.20 bytes per token"
    arguments = [sys.executable, "-m", "minigpt", "tokenize", "runs/book-1", "--json"]
    done = subprocess.run(arguments, input=f"{text}\n\n".encode(), capture_output=True, cwd=folder)
    first, empty = (json.loads(line) for line in done.stdout.splitlines())
    tokens = list(map(int, ids.split()))
    assert first == {"text": text, "tokens": tokens, "pieces": pieces.split("|"), "bytes": 12}
    assert empty == {"text": "", "tokens": [], "pieces": [], "bytes": 0}


def test_evaluate(trained):
    folder, _ = trained
    held_out = json.loads(called("evaluate", "runs/book-1", "--json", cwd=folder).stdout)
    assert set(held_out) == {"loss", "perplexity", "bits_per_byte", "tokens", "bytes"}
    metrics = [json.loads(line) for line in (folder / "runs/book-1/metrics.jsonl").open()]
    assert held_out["loss"] == pytest.approx(min(m["val_loss"] for m in metrics), rel=1e-4)
    other = called("evaluate", "runs/book-1", "--text", "book.txt", cwd=folder).stdout
    assert f"{len(tiny_text().encode()):,} bytes" in other


def test_export(trained):
    folder, _ = trained
    done = called("export", "runs/book-1", "--format", "saved_model", "--output", "a/b", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "a/b/saved_model.pb").is_file()
    (line,) = refused("export", "runs/book-1", "--output", "a/b", cwd=folder)
    assert "a/b" in line and "is not empty" in line


def test_configs_lists_the_shipped_ones():
    done = minigpt("configs")
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names[0] == "default"
    assert {"shakespeare_character", "imdb_keras_example", "imdb", "python"} < set(names)


def test_a_mistyped_setting_does_not_wait_for_tensorflow():
    code = "import sys, minigpt.cli.app; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train", "--text", "missing.txt"], ["missing.txt"]),
        (["train", "--text", "empty.txt"], ["empty.txt"]),
        (["train", "--text", "binary.txt"], ["binary.txt"]),
        (["train", "--text", "latin1.txt"], ["latin1.txt"]),
        (["train", "--text", "empty.txt", "--text", "missing.txt"], ["empty.txt", "missing.txt"]),
        (["train", "--text", "short.txt"], ["tokens"]),
        (["train", "--config", "nope"], ["--config nope"]),
        (["train", "--set", "model.max_len=1"], ["model.max_len = 1"]),
        (["train", "--set", "training.device=gpu:7"], ["training.device"]),
        (["train", "--run", "."], ["is not empty"]),
        (["train", "--run", "short.txt"], ["--run short.txt: is a file"]),
        (["train", "--run", "short.txt/run"], ["short.txt is a file"]),
        (
            ["train", "--text", "no.txt", "--run", ".", "--set", "model.max_len=1"],
            ["model.max_len", "is not empty", "no.txt: no such file"],
        ),
        (["train", "--set", "training.learning_rate=inf"], ["training.learning_rate = inf"]),
        (["train", "--set", "data.paths=['x']"], ["is source = 'files' meant?"]),
        (["train", "--set", "data.url='file:///x'"], ["data.url"]),
        (["sample", "short.txt"], ["RUN short.txt: is a file"]),
        (["sample", "nowhere"], ["RUN nowhere: does not exist"]),
        (["sample", "."], ["contains no config.toml"]),
        (["evaluate", "nowhere"], ["RUN nowhere"]),
        (["export", "nowhere", "--output", "x"], ["RUN nowhere"]),
        (
            ["export", "nowhere", "--format", "onnx", "--output", "x"],
            ["'onnx': should be one of 'saved_model', 'keras', 'huggingface'"],
        ),
        (["train", "--text", "white.txt"], ["white.txt: only white space"]),
        (["import", "nowhere", "--run", "x"], ["FOLDER nowhere: does not exist"]),
        (["import", ".", "--run", "x"], ["FOLDER .: contains no config.json"]),
        (["train", "--set", "training.init_from=nowhere"], ["init_from = 'nowhere': does not"]),
        (["train", "--set", "training.lora_rank=2"], ["training.lora_rank = 2"]),
        (["train", "--resume", "nowhere"], ["--resume nowhere: does not exist"]),
        (
            ["train", "--resume", "nowhere", "--config", "default", "--text", "x"],
            [
                "--config: is only for a new run",
                "--text: is only for a new run",
                "nowhere: does not",
            ],
        ),
        (["sample"], ["RUN"]),
        (["smaple", "x"], ["smaple"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_refused_with_one_clear_line_each(arguments, expected, tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "binary.txt").write_bytes(b"\x7fELF\0\0\1\2" * 50)
    (tmp_path / "latin1.txt").write_bytes("Grüße\n".encode("latin-1") * 50)
    (tmp_path / "short.txt").write_text("Hi.")
    (tmp_path / "white.txt").write_text(" \n\n " * 500)
    before = sorted(tmp_path.rglob("*"))
    found = refused(*arguments, cwd=tmp_path)
    assert len(found) == len(expected)
    assert all(line.startswith("minigpt: ") for line in found)
    for thing in expected:
        assert sum(thing in line for line in found) == 1, found
    assert sorted(tmp_path.rglob("*")) == before


def test_a_loss_that_is_no_number_ends_the_training(trained):
    folder, _ = trained
    (line,) = refused(
        *("train", "--text", "book.txt", "--run", "diverged", *SMALL, "--set=training.epochs=50"),
        *("--set=training.optimizer=sgd", "--set=training.learning_rate=1e30"),
        cwd=folder,
    )
    assert "training.learning_rate = 1e+30" in line and "at step" in line
    assert not (folder / "diverged/model.keras").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--beams=2", "--temperature=0.5", "--seed=3"], ["--temperature", "--seed"]),
        (["--length-penalty=2"], ["--length-penalty"]),
        (["--stream", "--json"], ["--stream"]),
        (["--ban=100000"], ["--ban 100000"]),
        (["--beams=2", "--num-samples=3"], ["--num-samples 3: should be at most --beams 2"]),
        (["--seed=2147483647", "--num-samples=2"], ["--seed 2147483647"]),
        (["--prompt", b"Ana \xff"], ["not valid Unicode at character 4"]),
    ],
)
def test_options_of_sample_that_make_no_sense(arguments, expected, trained):
    folder, _ = trained
    arguments = [os.fsdecode(argument) for argument in arguments]
    lines = refused("sample", "runs/book-1", *arguments, cwd=folder)
    assert len(lines) == len(expected)
    assert all(thing in line for thing, line in zip(expected, lines, strict=True))


def test_a_stream_prints_what_sample_prints(trained):
    folder, _ = trained
    arguments = ("sample", "runs/book-1", "--prompt", "Ana", "--num-samples", 2, "--stop", "x")
    streamed = called(*arguments, "--stream", cwd=folder).stdout
    assert streamed == called(*arguments, cwd=folder).stdout != ""


def test_a_refusal_as_a_process():
    done = minigpt("train", "--set", "model.max_len=1", "--set", "training.epochs=no")
    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert "model.max_len = 1" in first and "training.epochs = 'no'" in second


@pytest.mark.parametrize("option", ["--top-k=-1", "--temperature=-0.5", "--top-p=2", "--top-k=x"])
def test_sample_settings_are_checked(option, trained):
    folder, _ = trained
    (line,) = refused("sample", "runs/book-1", option, cwd=folder)
    assert option.split("=")[0].removeprefix("--").replace("-", "_") in line.replace("-", "_")


def test_ctrl_c_saves_the_state_and_says_what_to_do(trained):
    folder, _ = trained
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "minigpt", "train", "--text", "book.txt", "--run", "stopped"),
            *SMALL,
            *("--set=training.steps_per_epoch=1000000", "--set=training.checkpoint_every_steps=20"),
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
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


@pytest.mark.parametrize("moment", [0.5, 1.5, "learning the "])
def test_interrupted_before_training_leaves_nothing(moment, tmp_path):
    """After so many seconds, or once it has printed that."""
    (tmp_path / "big.txt").write_text(tiny_text(30_000))
    process = subprocess.Popen(
        [sys.executable, "-m", "minigpt", "train", "--text", "big.txt", "--run", "run"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if isinstance(moment, float):
        time.sleep(moment)
    else:
        assert process.stdout is not None
        assert any(line.startswith(moment) for line in process.stdout)
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


def test_asks_for_prompts_on_a_terminal(trained):
    """Through a pseudo-terminal, as a person would."""
    import pty

    folder, _ = trained
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "minigpt", "sample", "runs/book-1", "--max-new-tokens", "5"],
        cwd=folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = ""
    # The arrow key recalls the first prompt, which a model without history would continue as it is.
    for typed in (b"Ana sat\n", b"\x1b[A\n", b"\x04"):
        while not shown.endswith("> "):
            shown += os.read(master, 10_000).decode(errors="replace")
        os.write(master, typed)
        shown += " "
    assert process.wait(timeout=60) == 0
    os.close(master)
    assert shown.startswith("Loading runs/book-1 ...")
    assert shown.count("> ") == 3
    assert shown.count("Ana sat") == 4
    first, second = re.findall(r"Seed (\d+)", shown)
    assert first != second


def documented_commands() -> list[str]:
    """The commands in indented blocks of the README and the guide, without the synopsis."""
    root = Path(__file__).resolve().parents[2]
    text = "".join(
        (root / name).read_text(encoding="utf-8") for name in ("README.md", "docs/guide.md")
    )
    found = re.findall(r"^    (?:\$ |.*\| )?(minigpt [^\[|>\n]*)$", text, re.MULTILINE)
    return sorted(set(found))


def test_every_documented_command_parses(monkeypatch, tmp_path):
    """With its options, as the program would read it; the commands' bodies are left out."""
    program = typer.main.get_command(app)
    commands = documented_commands()
    assert {line.split()[1] for line in commands} == set(program.commands)
    for line in commands:
        arguments = shlex.split(line, comments=True)[1:]
        command = program.commands[arguments[0]]
        context = command.make_context(arguments[0], arguments[1:])
        if config := context.params.get("config"):
            assert config in shipped_configs() or config.endswith(".toml"), line
