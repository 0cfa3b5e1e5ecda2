"""Training on pairs as a whole, and what it leaves on disk."""

import math

import numpy as np
import pytest
import tensorflow as tf

import minigpt
from minigpt.config import EncoderDecoderConfig
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from minigpt.models import build_model
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.conftest import pair_settings, tiny_settings
from tests.settings import tokenizer_config


def test_validation_loss_is_that_of_a_plain_loop(pair_run):
    """Every held-out target token once, end tokens included, each pair alone and without padding."""
    opened, config = minigpt.load(pair_run), pair_run.config
    end = opened.tokenizer.end_id
    corpus = open_corpus(config.data, config.tokenizer)
    ids = np.asarray(corpus.val.ids, "int32")
    sentences = [part for part in np.split(ids, np.flatnonzero(ids == end) + 1) if len(part)][1:]
    assert len(sentences) == 400
    # In a graph, because 200 eager passes take ten times longer.
    row = tf.TensorSpec([1, None], tf.int32)
    signature = [(row, tf.TensorSpec([1], tf.int32), row)]
    logits_of = tf.function(opened.model, input_signature=signature, autograph=False)
    losses = []
    for source, target in zip(sentences[0::2], sentences[1::2], strict=True):
        shifted = np.concatenate([[opened.tokenizer.start_id], target[:-1]]).astype("int32")
        inputs = (source[None], np.array([len(source)], "int32"), shifted[None])
        logits = logits_of(inputs).numpy().astype("float64")[0]
        log_sums = np.log(np.exp(logits).sum(-1))
        losses += list(log_sums - logits[np.arange(len(target)), target])
    scored = minigpt.evaluate_run(pair_run)
    assert scored.tokens == len(losses) and scored.pairs == 200
    assert scored.loss == pytest.approx(np.mean(losses), rel=1e-3)
    text = "".join(opened.tokenizer.decode(target) for target in sentences[1::2])
    assert scored.bytes == len(text)
    assert scored.bits_per_byte == pytest.approx(sum(losses) / math.log(2) / scored.bytes, rel=1e-3)


def test_too_few_pairs_leave_nothing_behind(tmp_path):
    (tmp_path / "few.tsv").write_text("".join(f"a{i}\tb{i}\n" for i in range(20)))
    settings = pair_settings(tmp_path / "few.tsv", data={"val_pairs": 2})
    with pytest.raises(UserError, match=r"few\.tsv: 18 pairs.*training\.batch_size = 64"):
        minigpt.train(settings, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["few.tsv"]


def test_no_bleu_against_references_that_lost_something(pair_run):
    opened = minigpt.load(pair_run)
    assert opened.evaluate([("a b c d e", "e d c b a")]).bleu == pytest.approx(100)
    # Unknown characters are bytes; of words, the spaces and the unknown ones are lost.
    assert opened.evaluate([("a b c d e", "e d c b ß")]).bleu is not None
    words = learn_tokenizer(["a b c"], tokenizer_config(kind="word", vocab_size=10)).with_start()
    model = build_model(EncoderDecoderConfig(max_len=8, embed_dim=4, num_heads=1), words.vocab_size)
    translator = minigpt.TranslationModel(model, words)
    assert translator.evaluate([("a b c", "c b 東")]).bleu is None


def test_pairs_have_no_starting_point(pair_run, tiny_run, pair_file, tiny_file, tmp_path):
    pairs, refused = str(pair_run.path), "'encoder_decoder' cannot be fine-tuned"
    for settings, message in (
        (tiny_settings(tiny_file, training={"init_from": pairs}), refused),
        (pair_settings(pair_file, training={"init_from": pairs}), refused),
        (
            pair_settings(pair_file, training={"init_from": str(tiny_run.path)}),
            "does not translate pairs",
        ),
    ):
        with pytest.raises(UserError, match=message):
            minigpt.train(settings, tmp_path / "run")
    assert not list(tmp_path.iterdir())
