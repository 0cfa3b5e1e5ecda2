"""The texts of time to quality: one split and one score for both sides."""

import io
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from benchmarks import our_quality, quality_texts
from benchmarks.held_out import windows
from benchmarks.measuring import Context

BOOK = "".join(
    f"Chapter {number}. It was the {number}th night of the journey.\n" for number in range(400)
)


@pytest.fixture
def context(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "cache"))
    return Context(0, tmp_path)


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "reviews.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for number in range(50):
            review = (
                f"This movie, number {number}, is as good as the {number}th.<br />Or not!".encode()
            )
            member = tarfile.TarInfo(f"aclImdb/train/pos/{number}_7.txt")
            member.size = len(review)
            tar.addfile(member, io.BytesIO(review))
    return str(path)


def held_out_by_minigpt(context, text, config):
    class Model:
        vocab_size = 1000

    return our_quality._held_out(context, text, config, Model)


def test_prose_is_split_as_minigpt_splits_it(context, tmp_path):
    book = tmp_path / "book.txt"
    book.write_text(BOOK)
    quality_texts.prepare_prose(context, str(book), None)
    train, val = quality_texts.read_characters(context, "prose")
    assert train + val == BOOK and 0.09 < len(val) / len(BOOK) < 0.11
    config = our_quality._settings(context, "prose", ["training.seed=7"])
    # Raises if our held-out text is another one.
    held_out = held_out_by_minigpt(context, "prose", config)
    assert held_out.counted.sum() == len(val) - 1 and config.training.seed == 7


def test_prose_is_the_beginning_of_the_reviews(context, archive, monkeypatch):
    monkeypatch.setattr(quality_texts, "_PROSE_BYTES", 1000)
    quality_texts.prepare_prose(context, None, archive)
    text = (quality_texts.folder(context, "prose") / "text.txt").read_text()
    assert 900 < len(text) <= 1000
    assert text.startswith(
        "This movie, number 0, is as good as the 0th. Or not!\n\nThis movie, number 10,"
    )


def test_shakespeare_may_be_any_file(context, tmp_path):
    book = tmp_path / "book.txt"
    book.write_text(BOOK)
    quality_texts.prepare_shakespeare(context, str(book))
    train, val = quality_texts.read_characters(context, "shakespeare")
    assert train == BOOK[: int(0.9 * len(BOOK))] and train + val == BOOK
    config = our_quality._settings(context, "shakespeare", ["training.seed=7"])
    # Raises if the checksum is that of tiny Shakespeare.
    held_out = held_out_by_minigpt(context, "shakespeare", config)
    assert held_out.counted.sum() == len(val) - 1 and config.training.seed == 7


def test_words_are_those_of_the_tutorial_for_both_sides(context, archive):
    quality_texts.prepare_words(context, archive)
    train, val, _ = quality_texts.read_ids(context, "words")
    assert (train.shape, val.shape) == ((49, 81), (1, 81))
    config = our_quality._settings(context, "words", [])
    assert (config.tokenizer.kind, config.tokenizer.vocab_size) == ("word", 20_000)
    held_out = held_out_by_minigpt(context, "words", config)
    assert held_out.units == held_out.counted.sum() == (val[:, 1:] != 0).sum()
    changed = config.model_copy(
        update={"tokenizer": config.tokenizer.model_copy(update={"vocab_size": 9})}
    )
    with pytest.raises(ValueError, match="the words of minigpt differ"):
        held_out_by_minigpt(context, "words", changed)


def test_one_epoch_makes_the_same_updates():
    import minigpt
    from minigpt.corpus.fit import fit_to_text

    config = minigpt.load_config("shakespeare_character")
    merged = our_quality._in_one_epoch(config)
    assert merged.training.epochs == 1
    assert merged.training.steps_per_epoch == (
        config.training.epochs * config.training.steps_per_epoch
    )
    # Nothing is chosen again.
    assert fit_to_text(merged) is merged


def test_score_equals_that_of_minigpt():
    from benchmarks.keras_fit import nats_of

    from minigpt.evaluation.scores import bits_per_byte
    from minigpt.evaluation.text import Evaluator
    from minigpt.models import GPT

    gpt = GPT(vocab_size=17, max_len=8, embed_dim=8, num_heads=2)
    gpt.build()
    gpt.head.kernel.assign(3 * np.random.default_rng(0).normal(size=(8, 17)))
    ids = np.random.default_rng(1).integers(17, size=100).astype(np.int32)
    expected = bits_per_byte(Evaluator(gpt).loss(ids), 99, 250)
    assert windows(ids, 8, 250, 17).score(nats_of(gpt)) == pytest.approx(expected, rel=1e-5)
