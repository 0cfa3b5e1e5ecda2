"""The command line that a run records."""

import json
import shlex

import pytest

from minigpt.cli.train import recorded_command_line
from tests.cli.running import called


@pytest.mark.parametrize(
    ("argument", "recorded"),
    [
        ("book.txt", "book.txt"),
        ("--config=imdb", "--config=imdb"),
        ("--set=training.epochs=9", "--set=training.epochs=9"),
        ("training.max_minutes=0.5", "training.max_minutes=0.5"),
        ("tokenizer.kind='word'", "tokenizer.kind='word'"),
        ("../secret/my book.txt", "my book.txt"),
        ("/home/secret/texts/", "texts"),
        ("--text=/home/secret/book.txt", "--text=book.txt"),
        ("--run=secret/a", "--run=a"),
        ("/", "/"),
        ("data.paths=secret/a.txt", "data.paths=a.txt"),
        (" data.paths = secret/a.txt", "a.txt"),
        ("training.init_from = 'secret/a'", 'training.init_from ="a"'),
        ('data.paths=["/secret/a.txt", "b.txt"]', 'data.paths=["a.txt", "b.txt"]'),
        (r'data.paths=["\u002fsecret\u002fa.txt"]', 'data.paths=["a.txt"]'),
        ("data.paths=['a.txt'] # /secret/", 'data.paths=["a.txt"]'),
        ("training.epochs=9 # /secret/", "training.epochs=9"),
        ("training.epochs=9\nx = '/secret'", "training.epochs=9"),
        ('sampling.prompts=["and/or"]', 'sampling.prompts=["and/or"]'),
        ('--set=sampling.stop=["/"]', '--set=sampling.stop=["/"]'),
        ("data.url=https://host/secret/a.txt", "data.url=a.txt"),
        ("data.url='https://ana:secret@host/a.txt?key=secret#secret'", 'data.url="a.txt"'),
        ("data.url=https://ana:secret@host", "data.url=https://..."),
        ("data.url=https://ana:secret@host/", "data.url=https://..."),
        ("data.url=https://ana:sec/ret@host", "data.url=host"),
        ("data.url=https://ana:sec#ret@host/a.txt", "data.url=https://..."),
        ("data.url=https://ana:s/ec#ret@host/a.txt", "data.url=https://..."),
        ("data.url=https://host/a.txt?key=sec/ret", "data.url=a.txt"),
        ("file:///home/secret/a.txt", "a.txt"),
        ("b\udcff.txt", "b?.txt"),
        (r"C:\secret\a.txt", "a.txt"),
        ("data.url=//ana:secret@host", "data.url=//..."),
        ("data.url=//ana:secret@host/a.txt", "data.url=a.txt"),
        ('data.x={"/secret/k"="w"}', 'data.x={"k": "w"}'),
        ('"data".paths=["/home/secret/c"]', "..."),
        ('data . paths=["/home/secret/c"]', "..."),
        ('--set="data".paths=["/home/secret/c"]', "..."),
    ],
)
def test_folders_and_passwords_are_left_out(argument, recorded):
    assert recorded_command_line([argument]) == shlex.join(["minigpt", recorded])


def test_the_command_of_a_run(trained):
    folder, _ = trained
    facts = json.loads((folder / "runs/book-1/facts.json").read_text(encoding="utf-8"))
    assert facts["command"].startswith("minigpt train --text book.txt --set=model.max_len=16 ")


def test_a_run_that_is_resumed_keeps_its_command(trained, tmp_path, no_export):
    folder, _ = trained
    text = folder / "book.txt"
    small = ("--set=model.max_len=16", "--set=model.embed_dim=8", "--set=model.num_layers=1")
    steps = (
        "--set=training.steps_per_epoch=2",
        "--set=training.epochs=1",
        "--set=sampling.prompts=[]",
    )
    done = called("train", "--text", text, "--run", tmp_path / "run", *small, *steps, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "run/facts.json"
    command = json.loads(file.read_text())["command"]
    assert command == shlex.join(
        ["minigpt", "train", "--text", "book.txt", "--run", "run", *small, *steps]
    )
    before = file.read_bytes()
    resume = ("train", "--resume", "run", "--set=training.epochs=2")
    assert called(*resume, cwd=tmp_path).returncode == 0
    assert file.read_bytes() == before
