"""`data.source = "datasets"`: folders, and a hub on localhost."""

import json
import os
import subprocess
import sys

import datasets
import pytest

from minigpt.corpus.documents import ingest
from minigpt.corpus.sources import open_source
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from tests.corpus.hub import hub
from tests.corpus.stores import CHARACTERS, TEXTS, decoded
from tests.settings import data_config


def source(name, **options):
    return data_config(source="datasets", name=str(name), **options)


def read(data):
    documents = ingest(open_source(data).pieces())
    return [documents.text[start:stop].decode() for start, stop in documents.spans]


def test_a_folder_of_save_to_disk_is_read_in_place(tmp_path, cache):
    saved = datasets.Dataset.from_dict({"id": range(20), "review": TEXTS})
    saved.save_to_disk(tmp_path / "saved")
    assert read(source(tmp_path / "saved")) == TEXTS
    datasets.DatasetDict(train=saved, test=saved.select([3])).save_to_disk(tmp_path / "both")
    assert read(source(tmp_path / "both")) == TEXTS
    assert read(source(tmp_path / "both", split="test", field="review")) == [TEXTS[3]]
    assert not cache.exists()
    with pytest.raises(UserError, match=r"both/dev: no such file or folder"):
        read(source(tmp_path / "both", split="dev"))


def test_another_folder_is_copied_once_until_it_changes(tmp_path, cache, messages):
    folder = tmp_path / "folder"
    folder.mkdir()
    lines = [json.dumps({"id": n, "review": text}) for n, text in enumerate(TEXTS)]
    (folder / "train.jsonl").write_text("\n".join(lines[:19]))
    (folder / "test.jsonl").write_text(lines[19])
    assert read(source(folder)) == read(source(folder)) == TEXTS[:19]
    assert sum("copying the rows" in line for line in messages()) == 1
    assert read(source(folder, split="test")) == TEXTS[19:]
    (folder / "train.jsonl").write_text("\n".join(lines[1:]))
    assert read(source(folder)) == TEXTS[1:]
    assert len(list((cache / "datasets").iterdir())) == 3
    with pytest.raises(UserError) as found:
        read(source(folder, split="dev"))
    (line,) = found.value.problems
    assert line.startswith(f"data.name = '{folder}', data.split = 'dev': ") and "'train'" in line
    assert len(list((cache / "datasets").iterdir())) == 3


HUB_PROGRAM = """
import sys
from minigpt.corpus.sources import open_source
from minigpt.corpus.token_store import open_corpus
from tests.corpus.stores import CHARACTERS
from tests.settings import data_config
for name in sys.argv[1:]:
    try:
        corpus = open_corpus(data_config(source="datasets", name=name), CHARACTERS)
        print(corpus.train.documents + corpus.val.documents, corpus.fingerprint)
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_a_data_set_of_the_hub_is_read_once(tmp_path, cache):
    """In a process of its own: the package reads the address of the hub when it is imported."""
    rows = "".join(json.dumps({"text": text, "n": 1}) + "\n" for text in TEXTS).encode()
    with hub("me/words", {"train.jsonl": rows, "test.jsonl": rows[:30]}) as (address, asked):
        options = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hf")}
        command = [sys.executable, "-c", HUB_PROGRAM, "me/words"]
        environment = os.environ | options | {"PYTHONPATH": os.pathsep.join(sys.path)}
        first = subprocess.run(
            [*command, "me/nothing"], env=environment, capture_output=True, text=True
        )
        assert any(path.endswith("/train.jsonl") for path in asked), first.stderr
        assert not any(path.endswith("/test.jsonl") for path in asked)
        found, nothing = first.stdout.splitlines()
        assert found.split()[0] == "20"
        assert nothing.startswith("UserError data.name = 'me/nothing', data.split = 'train': ")
    # The hub is gone. The copy is the same text.
    again = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert again.stdout.splitlines() == [found]
    (copy,) = (cache / "datasets").glob("*.zst")
    plain = data_config(source="files", paths=[str(copy)])
    corpus = open_corpus(plain, CHARACTERS)
    texts = [decoded(part, corpus.tokenizer)[0] for part in (corpus.train, corpus.val)]
    assert sorted(texts[0] + texts[1]) == sorted(TEXTS)


def test_without_the_package(tmp_path, cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError) as found:
        open_source(source("me/words"))
    (line,) = found.value.problems
    assert line.startswith("data.name = 'me/words', data.split = 'train': not installed: ")
    assert "pip install" in line
