"""A tokenizer of another library under `TextGenerator`, as docs/python-api.md shows it."""

import re
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import sentencepiece

import minigpt
from tests.conftest import tiny_text

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "python-api.md"
V = 90


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """The file of a sentencepiece model with `<unk>`, `<s>` and `</s>`."""
    path = tmp_path_factory.mktemp("pieces") / "pieces.model"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(tiny_text(100).splitlines()),
        model_prefix=str(path.with_suffix("")),
        vocab_size=V,
        model_type="bpe",
        minloglevel=2,
    )
    return path


def documented(word):
    """The code of the section about the tutorial that contains a word."""
    text = DOCUMENT.read_text(encoding="utf-8")
    section = text.split("## The Keras tutorial's program")[1].split("\n## ")[0]
    (code,) = [c for c in re.findall("```python\n(.*?)```", section, re.DOTALL) if word in c]
    return code


def sampled(generator, logits):
    """The (prompt, continuation) pairs of a model whose logits are always the same."""
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(len(logits), 4),
            keras.layers.Dense(len(logits), kernel_initializer="zeros"),
        ]
    )
    model.layers[-1].bias.assign(logits)
    shown = []
    generator.show = lambda *pair: shown.append(pair)
    generator.set_model(model)
    generator.on_train_begin()
    generator.on_epoch_end(0)
    return shown


def run(code, folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = {"TextGenerator": minigpt.TextGenerator}
    exec(code, names)
    return names["generator"]


def favoring(*ids):
    logits = np.zeros(V + 3, "float32")
    logits[list(ids)] = [100.0 - i for i in range(len(ids))]
    return logits


def test_tensorflow_text(pieces, monkeypatch):
    generator = run(documented("tensorflow_text"), pieces.parent, monkeypatch)
    processor = sentencepiece.SentencePieceProcessor(str(pieces))
    assert generator.prompts[0].ids.tolist() == processor.encode("this movie is")
    roof = processor.piece_to_id("▁roof")
    generator.sampling = replace(generator.sampling, top_k=1)
    ((prompt, text),) = sampled(generator, favoring(V, V + 1, roof))
    assert (prompt, text) == ("this movie is", " roof" * 40)
