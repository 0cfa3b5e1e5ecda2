"""What docs/data.md tells a user to do."""

import gzip
import json
import re
import shlex
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest

import minigpt
from minigpt.config import load_config
from minigpt.corpus import text_files
from minigpt.corpus.fit import fit_to_text
from minigpt.corpus.token_store import open_corpus
from tests.cli.running import SMALL, called, refused

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (.*minigpt .*)$", PAGE, re.M)
TEXTS = [
    f"Sentence {number} is about the {number % 7}th of the seven hills." for number in range(90)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the page names."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "reviews.csv").write_text("stars,review\n" + "".join(f"5,{t}\n" for t in TEXTS))
    table = pyarrow.table({"stars": [5] * 90, "review": TEXTS, "title": TEXTS})
    pyarrow.parquet.write_table(table, folder / "reviews.parquet")
    lines = [json.dumps({"text": text.lower()}) + "\n" for text in TEXTS]
    (folder / "reviews.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (folder / "held_out.jsonl").write_text("".join(lines[:9]) + json.dumps({"text": TEXTS[3]}))
    (folder / "notes").mkdir()
    for number in range(12):
        (folder / "notes" / f"{number}.md").write_text(
            f"# Note {number}\n\n" + TEXTS[number].upper()
        )
    saved = datasets.Dataset.from_dict({"text": [text.upper() for text in TEXTS]})
    datasets.DatasetDict(train=saved, test=saved.select([0])).save_to_disk(folder / "saved")
    return folder


def test_the_page_names_every_kind_of_file():
    kinds = {suffix for suffix in text_files.TextFiles.suffixes if suffix.count(".") == 1}
    assert kinds | {".json", ".gz", ".zst"} <= set(re.findall(r"`(\.\w+)`", PAGE))
    assert len(COMMANDS) == 7


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_finds_its_text(folder, monkeypatch, command):
    text_files.standard_input.cache_clear()
    monkeypatch.chdir(folder)
    if (piped := command.partition("|"))[1]:
        notes = "".join(path.read_text() for path in sorted(Path("notes").glob("*.md")))
        (folder / "all.md").write_text(notes)
        stream = open(folder / "all.md")  # noqa: SIM115
        monkeypatch.setattr("sys.stdin", stream)
        command = piped[2]
    words = shlex.split(command, comments=True)[2:]
    given = list(zip(words[::2], words[1::2], strict=True))
    overrides = [value for name, value in given if name == "--set"]
    if "data.source=datasets" in overrides:
        # The names of the hub are asked for in tests/corpus/test_dataset_source.py.
        overrides.append("data.name=saved")
    config = load_config(None, overrides, [value for name, value in given if name == "--text"])
    config = fit_to_text(config, measures_speed=False)
    corpus = open_corpus(config.data, config.tokenizer)
    assert corpus.train.documents > 10 or "- " in f"{command} "
    assert corpus.train.bytes > 500


def test_standard_input_is_trained_on_and_resumed(folder, monkeypatch, no_export, without_xla):
    text_files.standard_input.cache_clear()
    notes = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    small = [option for option in SMALL if "epochs" not in option]
    arguments = ("train", "--text", "-", "--run", "piped", *small)
    done = called(*arguments, "--set=training.epochs=1", cwd=folder, input=notes)
    assert done.returncode == 0 and "the texts are those of the column 'text'" in done.stdout
    (path,) = minigpt.Run(folder / "piped").config.data.paths
    assert Path(path).read_text() == notes
    text_files.standard_input.cache_clear()
    done = called("train", "--resume", "piped", "--set=training.epochs=2", cwd=folder)
    assert done.returncode == 0, done.stderr
    Path(path).write_text(notes[:-1])
    (line,) = refused("train", "--resume", "piped", "--set=training.epochs=3", cwd=folder)
    assert "has changed since training" in line


def test_weights_and_own_validation_text_are_trained_with(folder, no_export, without_xla):
    paths = ("--text", "reviews.csv", "--text", "reviews.jsonl.gz")
    options = ["data.weights=[3,1]", 'data.val_paths=["held_out.jsonl"]']
    sets = [f"--set={option}" for option in options]
    done = called("train", *paths, *sets, *SMALL, "--run", "weighted", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "10 documents are also in the validation text; they are left out" in done.stdout
    assert "170 documents for training, 10 held out" in done.stdout
    config = minigpt.Run(folder / "weighted").config
    assert config.data.val_paths == [str(folder / "held_out.jsonl")]
    held_out = json.loads(called("evaluate", "weighted", "--json", cwd=folder).stdout)
    (other,) = json.loads(
        called("evaluate", "weighted", "held_out.jsonl", "--json", cwd=folder).stdout
    )
    assert (
        other["loss"] == pytest.approx(held_out["loss"]) and other["tokens"] == held_out["tokens"]
    )
    # A text without a single window.
    (folder / "short.txt").write_text("Four words are here.")
    short = ("--text", "short.txt", "--set=data.weights=[1,1,1]", "--run", "none")
    (line,) = refused("train", *paths, *short, *SMALL, "--set=model.max_len=64", cwd=folder)
    assert re.search(r"short.txt: \d+ tokens are available for training; a window has 64", line)
    assert not (folder / "none").exists()


def test_a_wrong_setting_does_not_hide_problems_of_the_paths(tmp_path):
    settings = ["--set=data.weights=[-1]", '--set=data.val_paths=["no.txt"]']
    assert refused("train", "--text", "nothing.txt", *settings, cwd=tmp_path) == [
        "minigpt: --set data.weights = -1: should be greater than 0",
        "minigpt: no.txt: no such file or folder",
        "minigpt: nothing.txt: no such file or folder",
    ]
    # Nothing is printed as chosen before the refusal.
    (tmp_path / "book.txt").write_text("Ana sat on the hill. " * 200)
    settings[0] = "--set=data.weights=[1, 2]"
    done = called("train", "--text", "book.txt", *settings, cwd=tmp_path)
    assert done.stderr.splitlines() == [
        "minigpt: no.txt: no such file or folder",
        "minigpt: data.weights = [1.0, 2.0]: should have a number for each of data.paths",
    ]
    settings = ["--set=data.field=foo", "--set=data.weights=[1, 2]"]
    done = called("train", "--text", "book.txt", *settings, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "minigpt: data.field = 'foo': none of the files has columns; should be left out",
        "minigpt: data.weights = [1.0, 2.0]: should have a number for each of data.paths",
    ]
    # The column of the validation text.
    (tmp_path / "held_out.csv").write_text("foo,bar\na text,b\n")
    held_out = f'data.val_paths=["{tmp_path / "held_out.csv"}"]'
    config = load_config(None, ["data.field=foo", held_out], [str(tmp_path / "book.txt")])
    config = fit_to_text(config, measures_speed=False)
    assert open_corpus(config.data, config.tokenizer).val.documents == 1
    start = ["--set=training.init_from=nowhere"]
    done = called("train", "--text", "book.txt", *start, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done
    long = ["--set=model.max_len=4096", "--set=training.batch_size=64"]
    done = called("train", "--text", "book.txt", *long, cwd=tmp_path)
    assert done.returncode == 2 and "Chosen" not in done.stdout, done
