"""`data.source = "datasets"`: folders, and a hub on localhost."""

import json

import datasets
import pytest

from minigpt.corpus.documents import ingest
from minigpt.corpus.sources import open_source
from minigpt.errors import UserError
from tests.corpus.stores import TEXTS
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


def test_a_data_set_of_the_hub_is_read_once(cache, monkeypatch):
    asked = []

    def load_dataset(*arguments, split, streaming):
        asked.append((*arguments, split))
        return [{"text": text, "n": 1} for text in TEXTS]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    for _ in range(2):
        assert read(source("me/words:part")) == TEXTS
    assert asked == [("me/words", "part", "train")]
    assert len(list((cache / "datasets").glob("*.zst"))) == 1
