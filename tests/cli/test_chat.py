"""`minigpt chat`: from a pipe and on a terminal."""

import contextlib
import json
import re
import shlex
from pathlib import Path

import pytest

import minigpt
from minigpt.cli import chat, terminal
from tests.cli.running import called

ROOT = Path(__file__).resolve().parents[2]
SHORT = [
    "--set=training.epochs=1",
    "--set=training.steps_per_epoch=2",
    "--set=training.batch_size=2",
]
SMALL = ["--set=model.embed_dim=16", "--set=model.num_heads=2", "--set=model.num_layers=1"]


@pytest.fixture(scope="module")
def model(chat_run) -> minigpt.PortableTextModel:
    return minigpt.load_portable(chat_run.portable_file)


GREEDY = ("--temperature", "0", "--max-new-tokens", "8")


def asked(model, *contents: str, system: str | None = None) -> list[str]:
    """The answers to questions of one dialogue."""
    messages = [] if system is None else [{"role": "system", "content": system}]
    found = []
    for content in contents:
        messages.append({"role": "user", "content": content})
        found.append(model.chat(messages, 8, temperature=0))
        messages.append({"role": "assistant", "content": found[-1]})
    return found


def test_each_line_of_a_pipe_is_answered_in_one_line(chat_run, model):
    lines = "A has six. A?\nB?\n\nB?\n"
    expected = [*asked(model, "A has six. A?", "B?"), *asked(model, "B?")]
    for path in (chat_run.path, chat_run.portable_file):
        done = called("chat", path, *GREEDY, input=lines)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [" ".join(text.splitlines()) for text in expected]


def test_lines_that_are_not_utf_8_are_refused(chat_run):
    done = called("chat", chat_run.portable_file, "--seed=1", input=b"A?\n\xff\n")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and line.startswith("minigpt: standard input: ")


def test_without_a_seed_answers_differ_and_the_seed_is_said(chat_run):
    arguments = ("chat", chat_run.path, "--temperature=2", "--max-new-tokens=8")
    done = [called(*arguments, input="A?\nB?\n") for _ in range(2)]
    seeds = [re.fullmatch(r"seed (\d+)\n", each.stderr)[1] for each in done]
    assert done[0].stdout != done[1].stdout and seeds[0] != seeds[1]
    again = called(*arguments, "--seed", seeds[0], input="A?\nB?\n")
    assert (again.stdout, again.stderr) == (done[0].stdout, "")


def test_json_has_question_answer_and_seed(chat_run, model):
    done = called("chat", chat_run.path, *GREEDY, "--json", "--system", "hi", input="A?\n")
    (answer,) = asked(model, "A?", system="hi")
    assert json.loads(done.stdout) == {"question": "A?", "answer": answer, "seed": 0}


def test_a_model_of_text_is_refused(tiny_run):
    done = called("chat", tiny_run.path, input="A?\n")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1


@pytest.fixture
def typed(chat_run, monkeypatch, capsys):
    """Types lines on a terminal; returns what is printed on standard output and standard error."""

    def run(*lines: str) -> tuple[str, str]:
        left = iter(lines)

        def read(prompt: str) -> str:
            try:
                return next(left)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr(chat, "is_interactive", lambda: True)
        monkeypatch.setattr(terminal, "input", read, raising=False)
        done = called("chat", chat_run.portable_file, *GREEDY)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    return run


def test_undo_takes_back_the_last_question(typed, model):
    out, err = typed("A?", "B?", "", " /undo ", "C?")
    first, second = asked(model, "A?", "B?")
    third = asked(model, "A?", "C?")[1]
    assert out.split() == f"{first}\n{second}\n{third}".split()
    assert "Took back: B?" in err


def test_help_and_quit(typed, model):
    out, err = typed("/help", "A?", " /quit", "B?")
    assert out.split() == asked(model, "A?")[0].split()
    # The first line, and that of /help.
    assert err.count("/undo takes back the last one,") == 2 and "/quit ends." in err


def test_commands_that_cannot_be_followed_are_one_line(typed):
    _, err = typed("/undo", "/what", "A?")
    for problem in ("/undo: ", "/what: should be /undo, /help or /quit"):
        assert problem in err


@pytest.mark.slow
def test_what_the_document_says(dialogue_file, tmp_path):
    page = (ROOT / "docs" / "dialogues.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\{.*\}$", page, re.MULTILINE)
    assert len(rows) == 4  # The shapes.
    text = "".join(f"{row}\n" for row in rows) + dialogue_file.read_text()
    (tmp_path / "dialogues.jsonl").write_text(text)
    done = []
    for question, command in re.findall(r"^    (?:printf '(.*)' \| )?minigpt (.*)$", page, re.M):
        words = shlex.split(command.replace("--base runs/book-1", "--base answers"))
        if words[0] == "train":
            words += SHORT if "--base" in command else [*SHORT, *SMALL]
        if words[0] != "serve" and words != ["chat", "MODEL"]:
            result = called(*words, cwd=tmp_path, input=question.replace("\\n", "\n"))
            assert result.returncode == 0, (command, result.stderr)
            done.append(words[0])
    assert done == ["train", "chat", "train", "train", "chat"]
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with contextlib.chdir(tmp_path):
        exec(code, {})
