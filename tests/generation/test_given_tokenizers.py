"""Tokenizers of other libraries under `TextGenerator`, as docs/python-api.md shows them."""

import re
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import sentencepiece

import minigpt
from minigpt.generation.given_tokenizers import GivenTokenizer
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


def test_sentencepiece(pieces, monkeypatch):
    generator = run(documented("import sentencepiece"), pieces.parent, monkeypatch)
    processor = sentencepiece.SentencePieceProcessor(str(pieces))
    ((prompt, text),) = sampled(generator, favoring())
    assert prompt == "this movie is" and text
    ids = generator.prompts[0].ids.tolist()
    assert ids == processor.encode("this movie is")
    # `<unk>`, `<s>` and ids that it does not have are never drawn; `</s>` ends the text.
    one = favoring(processor.unk_id(), processor.bos_id(), V, processor.piece_to_id("▁roof"))
    assert set(sampled(generator, one)[0][1].split()[:1]) == {"roof"}
    assert sampled(generator, favoring(processor.eos_id()))[0][1] == ""
    # An empty text starts with `<s>`.
    assert GivenTokenizer(processor).encode("").tolist() == [processor.bos_id()]


def test_tensorflow_text(pieces, monkeypatch):
    generator = run(documented("tensorflow_text"), pieces.parent, monkeypatch)
    processor = sentencepiece.SentencePieceProcessor(str(pieces))
    assert generator.prompts[0].ids.tolist() == processor.encode("this movie is")
    roof = processor.piece_to_id("▁roof")
    generator.sampling = replace(generator.sampling, top_k=1)
    ((prompt, text),) = sampled(generator, favoring(V, V + 1, roof))
    assert (prompt, text) == ("this movie is", " roof" * 40)


@pytest.mark.slow
def test_transformers(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    trained.train_from_iterator(
        tiny_text(100).splitlines(), trainers.BpeTrainer(vocab_size=V, special_tokens=special)
    )
    names = dict(zip(("unk_token", "bos_token", "eos_token", "pad_token"), special, strict=True))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained, **names)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    generator = run(documented("AutoTokenizer"), tmp_path, monkeypatch)
    generator.sampling = replace(generator.sampling, top_k=1)
    assert generator.prompts[0].ids.tolist() == tokenizer.encode("this movie is")
    on = tokenizer.convert_tokens_to_ids("Ġon")
    never = [tokenizer.convert_tokens_to_ids(name) for name in ("<unk>", "<s>", "<pad>")]
    ((prompt, text),) = sampled(generator, favoring(*never, V, on))
    assert (prompt, text) == ("this movie is", " on" * 40)
    assert sampled(generator, favoring(tokenizer.eos_token_id))[0][1] == ""
    # The same tokenizer without its wrapper of transformers.
    assert GivenTokenizer(trained).encode("this movie").tolist() == tokenizer.encode("this movie")
