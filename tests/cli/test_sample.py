"""`minigpt sample`."""

import json
import os
import re
import subprocess
import sys

import pytest

import minigpt
from minigpt.generation.base_models import Sample, whole_sentences
from minigpt.generation.text_models import load
from tests.cli.running import called


def test_sample_json(folder):
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


def test_sample_warns_of_what_the_tokenizer_has_never_seen(folder):
    done = called("sample", "runs/book-1", "--prompt", "Ana ☃☃", "--seed=1", cwd=folder)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "2 of its characters are unknown" in done.stderr
    assert done.stdout.startswith("Ana ☃☃")
    with pytest.warns(UserWarning, match="prompt 'Ana ☃☃': 2 of its characters are unknown"):
        load(folder / "runs/book-1").generate("Ana ☃☃", max_new_tokens=1)


def test_a_stream_prints_what_sample_prints(folder):
    arguments = (
        "sample",
        "runs/book-1",
        "--prompt",
        "Ana",
        "--num-samples",
        2,
        "--seed=1",
        "--stop=x",
    )
    streamed = called(*arguments, "--stream", cwd=folder).stdout
    assert streamed == called(*arguments, cwd=folder).stdout != ""


def test_python_writes_the_text_of_the_command(run_from_base):
    run = run_from_base
    assert run.config.sampling.temperature == 0.7
    options = ("--prompt", "Ana", "--seed", "3", "--max-new-tokens", "30")
    done = called("sample", run.path, *options)
    for opened in (minigpt.open_model(run), minigpt.load(run)):
        assert done.stdout == f"Ana{opened.generate('Ana', 30, seed=3)[0]}\n"
    assert opened.generate("Ana", 30, seed=3, temperature=2.0) != opened.generate("Ana", 30, seed=3)


def test_without_a_seed_texts_differ_and_the_seed_is_said(folder):
    arguments = ("sample", "runs/book-1", "--prompt", "Ana", "--prompt", "Dirk", "--temperature=2")
    done = [called(*arguments, cwd=folder) for _ in range(2)]
    seeds = [re.fullmatch(r"seed (\d+)\n", each.stderr)[1] for each in done]
    assert done[0].stdout != done[1].stdout and seeds[0] != seeds[1]
    again = called(*arguments, "--seed", seeds[1], cwd=folder)
    assert (again.stdout, again.stderr) == (done[1].stdout, "")


def test_the_prompt_of_the_run_is_continued_to_the_end_of_a_sentence(tiny_run):
    sampling = tiny_run.config.sampling
    prompt, limit = sampling.prompts[0], sampling.max_new_tokens
    arguments = ("sample", tiny_run.path, "--seed", 0, "--num-samples", 8)
    lines = called(*arguments, "--json", input="").stdout.splitlines()
    samples = [Sample(**json.loads(line)) for line in lines]
    whole = [(prompt + sample.text).strip() for sample in samples]
    cut = [(prompt + whole_sentences(sample, limit)).strip() for sample in samples]
    assert cut != whole
    # Not if the user has given a prompt or a length.
    for given, expected in (
        ((), cut),
        (("--prompt", prompt), whole),
        (("--max-new-tokens", limit), whole),
    ):
        shown = called(*arguments, *given, input="").stdout
        texts = re.split(r"^--- sample \d of 8, seed \d ---\n", shown, flags=re.M)[1:]
        assert [text.strip() for text in texts] == expected


def test_prompts_from_a_pipe(folder):
    arguments = ("sample", "runs/book-1", "--json", "--max-new-tokens", 3)
    done = called(*arguments, cwd=folder, input="Ana sat\r\n\n[/INST] \\[b]")
    assert done.returncode == 0, done.stderr
    samples = [json.loads(line) for line in done.stdout.splitlines()]
    assert [sample["prompt"] for sample in samples] == ["Ana sat", "", "[/INST] \\[b]"]
    done = called(*arguments, "--prompt", "Dirk", cwd=folder, input="not read")
    assert [json.loads(line)["prompt"] for line in done.stdout.splitlines()] == ["Dirk"]
    # The first prompt of the run.
    (prompt, *_) = minigpt.Run(folder / "runs/book-1").config.sampling.prompts
    done = called(*arguments, cwd=folder, input="")
    assert [json.loads(line)["prompt"] for line in done.stdout.splitlines()] == [prompt]


def test_prompts_that_are_not_text(folder):
    done = called("sample", "runs/book-1", cwd=folder, input=b"Ana\n\xff")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and line.startswith("minigpt: standard input: ")


def test_asks_for_prompts_on_a_terminal(folder):
    """Through a pseudo-terminal, as a person would."""
    import pty

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
    # The run's own prompt is continued before the first question.
    assert shown.index("Ana sat") < shown.index("> ") and shown.count("Ana sat") == 5
    assert len(set(re.findall(r"seed (\d+)", shown))) == 3
