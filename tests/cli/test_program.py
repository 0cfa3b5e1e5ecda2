"""Every command: refused arguments, help, the commands in the documentation."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from minigpt import __version__
from minigpt.cli.program import build_app
from minigpt.config import load_config, shipped_configs
from tests.cli.running import called, minigpt, refused

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "runs"


def run_without_tensorflow(*arguments) -> str:
    """Runs a command in a new process and returns its output; checks what it has imported."""
    code = (
        "import contextlib, sys\n"
        "from minigpt.cli.program import run_command\n"
        "with contextlib.suppress(SystemExit):\n"
        "    run_command()\n"
        "sys.exit(', '.join({'tensorflow', 'keras'} & sys.modules.keys()) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["configs"],
        ["runs", str(FIXTURES)],
        ["train", "--set", "model.max_len=1"],
        ["smaple"],
        ["export", str(FIXTURES / "tiny"), "--output", str(FIXTURES)],
    ],
    ids=" ".join,
)
def test_commands_that_do_not_import_tensorflow(arguments):
    run_without_tensorflow(*arguments)


@pytest.mark.parametrize("run", ["character", "lora"])
def test_tokenize_does_not_import_tensorflow(run):
    out = run_without_tensorflow("tokenize", FIXTURES / run, "--text", "Ana sat")
    pieces, ids, counts = out.splitlines()
    assert pieces.replace("|", "") == "Ana sat"
    assert len(ids.split()) == int(counts.split()[0])


def test_without_a_command_the_first_steps_are_said():
    done = called()
    assert done.returncode == 2 and len(done.stdout.splitlines()) == 4
    assert "minigpt train --text book.txt\n" in done.stdout and "minigpt --help" in done.stdout


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("train --text book.txt --seed 3", ["training.seed", "sampling.seed"]),
        ("train --vocab-size 300", ["tokenizer.vocab_size"]),
        ("train --prompt Ana", ["sampling.prompts"]),
        ("train --format gguf", ["export"]),
        ("sweep --set training.seed=1 --output x --minutes 3", ["train"]),
        ("sample x --plan", ["train"]),
    ],
)
def test_an_option_of_another_command_names_what_is_right(command, instead, tmp_path):
    """A setting, or the commands that have it; `train` and `sweep` set all settings."""
    (line,) = refused(*command.split(), cwd=tmp_path)
    shown, names = line.rpartition(": ")[::2]
    named = re.findall(r"--set ([\w.]+)=VALUE", names) or names.split(", ")
    assert named == instead and shown.startswith("minigpt: --")
    assert all(name in load_config().settings() for name in named if "." in name)


def test_version():
    done = called("--version")
    assert done.stdout == f"minigpt {__version__}\n"
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("minigpt sam", ["sample"]),
        ("minigpt train --config shakespeare_c", ["shakespeare_character"]),
    ],
)
def test_shell_completion(words, expected):
    environment = {
        "_MINIGPT_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = minigpt(env=os.environ | environment)
    assert done.stdout.split() == expected


def test_closed_standard_streams(folder):
    command = f"{sys.executable} -m minigpt"
    done = subprocess.run(
        f"{command} tokenize runs/book-1 <&-; {command} tokenize runs/book-1 --text Ana >&-; "
        f"{command} tokenize nowhere 2>&-",
        shell=True,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 2)


@pytest.mark.parametrize("arguments", ["configs", "--help", "runs ."])
def test_an_output_that_cannot_be_written(arguments):
    done = subprocess.run(
        f"{sys.executable} -m minigpt {arguments} > /dev/full",
        shell=True,
        cwd=FIXTURES,
        capture_output=True,
        text=True,
    )
    problem = "standard output: cannot be written: No space left on device"
    assert (done.stderr, done.returncode) == (f"minigpt: {problem}\n", 2)


def test_unusual_environment(folder, tmp_path):
    """An output that cannot encode a text; Keras with another backend, floatx and epsilon."""
    (tmp_path / "keras.json").write_text('{"floatx": "float64", "backend": "jax", "epsilon": 1.0}')
    environment = {
        "PYTHONIOENCODING": "ascii",
        "KERAS_BACKEND": "torch",
        "KERAS_HOME": str(tmp_path),
    }
    arguments = ("sample", "runs/book-1", "--prompt", "Ana \N{SNOWMAN}", "--max-new-tokens", 1)
    done = minigpt(*arguments, cwd=folder, env=os.environ | environment)
    assert done.returncode == 0 and done.stdout.startswith("Ana ?")


def documented_commands() -> list[str]:
    """The commands in indented blocks of some pages, without the synopsis."""
    root = Path(__file__).resolve().parents[2]
    docs = root / "docs"
    pages = [root / "README.md", *docs.glob("*.md"), *(docs / "coming-from").glob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    found = re.findall(r"^    (?:\$ |.*\| )?(minigpt [^\[|>\n]*)$", text, re.MULTILINE)
    return sorted(set(found))


def test_every_documented_command_parses(monkeypatch, tmp_path):
    """With its options, as the program would read it; the commands' bodies are left out."""
    program = typer.main.get_command(build_app())
    commands = documented_commands()
    assert {line.split()[1] for line in commands} == set(program.commands)
    for line in commands:
        arguments = shlex.split(line, comments=True)[1:]
        command = program.commands[arguments[0]]
        context = command.make_context(arguments[0], arguments[1:])
        if config := context.params.get("config"):
            assert config in shipped_configs() or config.endswith(".toml"), line
        # Raises an error for an unknown setting or value. One line shows such errors.
        if arguments[0] == "train" and "training.epoch=" not in line:
            given = context.params
            shipped = config if config in shipped_configs() else None
            load_config(shipped, given["overrides"] or (), given["text"] or ())
