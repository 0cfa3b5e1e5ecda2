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
from minigpt.corpus.token_store import open_corpus
from minigpt.training.start import complete_settings
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
    config = complete_settings(config, measures_speed=False)[0].config
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
