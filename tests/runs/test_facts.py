"""facts.json: written once, and no reason for readers to fail."""

import json

import pytest

from minigpt.config import load_config
from minigpt.runs.records import Facts
from minigpt.runs.run import Run
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.settings import tokenizer_config

FACTS = Facts(
    parameters=5,
    baselines={"uniform": 4.5, "unigram": None},
    train_bytes=90,
    train_tokens=100,
    val_tokens=0,
    device="CPU, 2 cores",
    text="90 bytes for training, 10 held out",
    bits_before_training={"model": 2.1, "ngram": 2.9},
)
AS_DICTIONARY = {
    "parameters": 5,
    "baselines": {"uniform": 4.5, "unigram": None},
    "train_bytes": 90,
    "train_tokens": 100,
    "val_tokens": 0,
    "device": "CPU, 2 cores",
    "text": "90 bytes for training, 10 held out",
    "bits_before_training": {"model": 2.1, "ngram": 2.9},
}


@pytest.fixture
def run(tmp_path) -> Run:
    tokenizer = learn_tokenizer(["a text"], tokenizer_config(kind="character"))
    return Run.create(tmp_path / "run", load_config({}), tokenizer, None, facts=FACTS)


def test_a_new_run_has_them(run):
    assert json.loads(run.facts_file.read_text(encoding="utf-8")) == AS_DICTIONARY
    assert run.facts == AS_DICTIONARY


def test_missing(run):
    run.facts_file.unlink()
    assert run.facts == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b" " * 2_000_000,
        json.dumps(AS_DICTIONARY | {"parameters": "5"}).encode(),
        json.dumps(AS_DICTIONARY | {"parameters": -5}).encode(),
        json.dumps(AS_DICTIONARY | {"baselines": {"uniform": float("nan")}}).encode(),
        json.dumps({"device": None}).encode(),
    ],
    ids=lambda content: content[:40],
)
def test_damaged(run, content):
    run.facts_file.write_bytes(content)
    assert run.facts == {}
