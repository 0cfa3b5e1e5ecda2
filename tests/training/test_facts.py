"""The facts that a run records before its first step."""

import math

import numpy as np
import pytest

from minigpt.corpus.token_store import open_corpus
from minigpt.models.lora import count_merged


def test_of_a_text(tiny_run, opened):
    facts, config = tiny_run.facts, tiny_run.config
    assert list(facts) == [
        "parameters",
        "baselines",
        "train_bytes",
        "train_tokens",
        "val_tokens",
        "device",
        "text",
    ]
    assert facts["parameters"] == opened.model.count_params() == count_merged(opened.model)
    corpus = open_corpus(config.data, config.tokenizer)
    train, val = (np.asarray(part.ids, "int64")[1:] for part in (corpus.train, corpus.val))
    assert facts["train_bytes"] == len(opened.tokenizer.decode(train).encode())
    assert facts["train_tokens"] == len(train) and facts["val_tokens"] == len(val)
    assert facts["baselines"]["uniform"] == pytest.approx(math.log(320))
    counts = np.bincount(train, minlength=320) + 1
    unigram = -np.log(counts[val] / counts.sum()).mean()
    assert facts["baselines"]["unigram"] == pytest.approx(unigram)


def test_of_pairs(pair_run):
    facts = pair_run.facts
    assert facts["parameters"] == pair_run.load_model().count_params()
    assert facts["text"].startswith("3,800 pairs for training, 200 held out")
    assert facts["baselines"]["unigram"] < facts["baselines"]["uniform"]
