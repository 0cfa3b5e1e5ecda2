"""Baselines against plain Python and the programs `xz` and `zstd`."""

import itertools
import lzma
import math
import random
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import zstandard

from minigpt.config import load_config
from minigpt.corpus.token_store import open_corpus
from minigpt.insight import baselines
from minigpt.insight.baselines import (
    bigram_loss,
    compression_baselines,
    evaluation_baselines,
    held_out_bytes,
    held_out_likeness,
)
from tests.conftest import letters, tiny_text
from tests.corpus.stores import decoded


def random_ids(count: int, vocab_size: int, seed: int) -> np.ndarray:
    """Ids with very different frequencies; some are never drawn."""
    draw = random.Random(seed)
    weights = [1 / (1 + token) ** 1.5 for token in range(vocab_size)]
    return np.array(draw.choices(range(vocab_size), weights, k=count), np.uint16)


def plain_bigram_loss(train: list[int], val: list[int], vocab_size: int) -> float:
    tokens, contexts = Counter(train[1:]), Counter(train[:-1])
    pairs = Counter(itertools.pairwise(train))
    followers = {a: len({y for x, y in pairs if x == a}) for a in contexts}
    total = 0.0
    for a, b in itertools.pairwise(val):
        unigram = (tokens[b] + 1) / (len(train) - 1 + vocab_size)
        if a in contexts:
            different = followers[a]
            p = (pairs[a, b] + different * unigram) / (contexts[a] + different)
        else:
            p = unigram
        total -= math.log(p)
    return total / (len(val) - 1)


@pytest.fixture(params=["one range", "small ranges"])
def way(request, monkeypatch):
    """All contexts at once or in ranges, and chunks that are shorter than the text."""
    monkeypatch.setattr(baselines, "_CHUNK", 7)
    if request.param == "small ranges":
        monkeypatch.setattr(baselines, "_MAX_SORTED", 50)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("seed", range(5))
def test_bigram_loss_equals_plain_python(seed):
    train, val = random_ids(600, 30, seed), random_ids(200, 40, seed + 100)
    counts = np.bincount(train[1:], minlength=40)
    expected = plain_bigram_loss(train.tolist(), val.tolist(), 40)
    assert bigram_loss(train, val, counts) == pytest.approx(expected, rel=1e-12)


def test_probabilities_of_all_followers_sum_to_one():
    train = random_ids(300, 12, seed=1)
    counts = np.bincount(train[1:], minlength=12)
    for context in range(12):
        losses = [bigram_loss(train, np.array([context, b]), counts) for b in range(12)]
        assert sum(math.exp(-loss) for loss in losses) == pytest.approx(1)


def test_a_text_that_repeats_is_nearly_certain():
    ids = np.array([0, 1, 2, 3] * 500, np.uint16)
    assert bigram_loss(ids, ids, np.bincount(ids[1:])) < 0.01


def test_no_held_out_tokens():
    assert math.isnan(bigram_loss(np.array([0, 1]), np.array([0]), np.array([0, 1])))


PROGRAMS = {"xz": ["xz", "-c"], "zstd": ["zstd", "-19", "-q", "-c"]}


@pytest.mark.parametrize("program", PROGRAMS)
def test_compression_equals_the_program(program, tmp_path):
    if not shutil.which(program):
        pytest.skip(f"needs the program {program}")
    text = tiny_text(4000).encode()
    file = tmp_path / "text"
    file.write_bytes(text)
    size = len(subprocess.check_output([*PROGRAMS[program], str(file)]))
    bits = compression_baselines(text)[f"{program}_bits_per_byte"]
    # Another version of the program may find slightly different matches.
    assert bits * len(text) / 8 == pytest.approx(size, rel=2e-3)


def test_compressed_text_can_be_restored(monkeypatch):
    written = {}
    compress = lzma.compress
    monkeypatch.setattr(
        lzma, "compress", lambda *args, **kw: written.setdefault("xz", compress(*args, **kw))
    )
    text = tiny_text(500).encode()
    xz, zstd = compression_baselines(text).values()
    assert lzma.decompress(written["xz"]) == text
    assert xz == 8 * len(written["xz"]) / len(text)
    frame = zstandard.ZstdCompressor(19, write_checksum=True).compress(text)
    assert zstd == 8 * len(frame) / len(text)
    assert zstandard.get_frame_parameters(frame).has_checksum


def opened(tmp_path, text, **settings):
    file = tmp_path / "text.txt"
    file.write_text(text, encoding="utf-8")
    data = {"source": "files", "paths": [str(file)], "document_separator": "\n"}
    config = load_config({**settings, "data": data | settings.get("data", {})})
    return open_corpus(config.data, config.tokenizer), config


TOKENIZERS = {
    "byte_pair": {"kind": "byte_pair", "vocab_size": 400},
    "character": {"kind": "character", "vocab_size": 20},
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_held_out_bytes(tmp_path, kind):
    text = tiny_text() + "\n▁ ☃ \\x41 \n"
    corpus, config = opened(tmp_path, text, tokenizer=TOKENIZERS[kind])
    held_out = held_out_bytes(corpus, config)
    assert len(held_out) == corpus.val.bytes
    # Whole lines, in the order of the file.
    documents = iter(text.split("\n"))
    rest = held_out.decode()
    while rest:
        document = next(documents)
        rest = rest.removeprefix(document) if document and rest.startswith(document) else rest


def test_one_document_that_is_cut(tmp_path):
    text = "One text without a separator. " * 30 + "Its end is held out."
    corpus, config = opened(tmp_path, text, tokenizer=TOKENIZERS["byte_pair"])
    assert text.encode().rstrip().endswith(held_out_bytes(corpus, config).rstrip())
    assert len(held_out_bytes(corpus, config)) == corpus.val.bytes


def test_a_lossy_tokenizer_has_no_bits_per_byte(tmp_path):
    corpus, config = opened(tmp_path, tiny_text(), tokenizer={"kind": "word", "vocab_size": 100})
    assert held_out_bytes(corpus, config) is None
    found = evaluation_baselines(corpus, config)
    assert set(compression_baselines(held_out_bytes(corpus, config)).values()) == {None}
    assert found["bigram"] < found["unigram"] < found["uniform"]


def test_likeness_equals_plain_python():
    """The parts do not overlap: 16 of 300 tokens each, and 4 of the held-out text."""
    train, val = random_ids(4800, 12, seed=1), (random_ids(1200, 12, seed=2) + 3) % 15
    parts = [part.tolist() for part in train.reshape(16, 300)]

    def losses(rest, part):
        ids = [token for each in rest for token in each]
        counts = Counter(ids[1:])
        unigram = -sum(math.log((counts[t] + 1) / (len(ids) - 1 + 15)) for t in part) / len(part)
        return unigram, plain_bigram_loss(ids, part, 15)

    inside = [losses(parts[:i] + parts[i + 1 :], parts[i]) for i in range(0, 16, 2)]
    outside = [losses(parts[1:], part.tolist()) for part in val.reshape(4, 300)]
    found = held_out_likeness(train, val, 15)
    for number, name in enumerate(("unigram", "bigram")):
        own = [each[number] for each in inside]
        expected = [sum(each[number] for each in outside) / 4, min(own), sum(own) / 8, max(own)]
        assert found[name] == pytest.approx(expected, abs=1e-4)
    assert found["bigram"][0] > found["bigram"][3]


def test_short_texts_are_not_compared():
    train, val = random_ids(4800, 12, seed=1), random_ids(300, 12, seed=2)
    assert held_out_likeness(train, val, 12) is not None
    assert held_out_likeness(train[:-1], val, 12) is None
    assert held_out_likeness(train, val[:-1], 12) is None


def test_evaluation_baselines(tmp_path):
    corpus, config = opened(tmp_path, tiny_text(), tokenizer=TOKENIZERS["byte_pair"])
    found = evaluation_baselines(corpus, config)
    train, val = corpus.train.ids.tolist(), corpus.val.ids.tolist()
    vocab_size = corpus.tokenizer.vocab_size
    assert found["uniform"] == math.log(vocab_size)
    assert found["bigram"] == pytest.approx(plain_bigram_loss(train, val, vocab_size))
    xz = 8 * len(lzma.compress(held_out_bytes(corpus, config))) / corpus.val.bytes
    assert found["xz_bits_per_byte"] is found["zstd_bits_per_byte"] is None
    compressed = compression_baselines(held_out_bytes(corpus, config))
    assert compressed["xz_bits_per_byte"] == xz
    assert (found | compressed).keys() == found.keys()


def opened_pairs(tmp_path, max_len):
    file = tmp_path / "pairs.tsv"
    pairs = [(text, text[::-1].upper()) for text in letters(400, seed=3)]
    file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    settings = {
        "data": {"source": "pairs", "paths": [str(file)]},
        "model": {"kind": "encoder_decoder", "block": "post_norm", "max_len": max_len},
        "tokenizer": {"kind": "character", "vocab_size": 64},
    }
    config = load_config(settings)
    return open_corpus(config.data, config.tokenizer), config, pairs


def test_pairs_are_scored_by_their_targets(tmp_path):
    max_len = 12
    corpus, config, pairs = opened_pairs(tmp_path, max_len)
    tokenizer, end = corpus.tokenizer, corpus.tokenizer.end_id
    sides = []
    for part in (corpus.train, corpus.val):
        texts, _ = decoded(part, tokenizer)
        fitting = [
            (source, target)
            for source, target in zip(texts[0::2], texts[1::2], strict=True)
            if max(len(source), len(target)) + 1 <= max_len
        ]
        assert 0 < len(fitting) < len(texts) // 2 and set(fitting) <= set(pairs)
        sides.append([target for _, target in fitting])
    assert held_out_bytes(corpus, config).decode() == "".join(sides[1])
    train, val = (
        [end] + [i for target in side for i in [*tokenizer.encode(target).tolist(), end]]
        for side in sides
    )
    expected = plain_bigram_loss(train, val, tokenizer.vocab_size)
    found = evaluation_baselines(corpus, config)
    assert found["bigram"] == pytest.approx(expected, rel=1e-9)
    assert found["bigram"] < found["unigram"] < found["uniform"]


def test_no_pair_fits(tmp_path):
    corpus, config, _ = opened_pairs(tmp_path, max_len=2)
    found = evaluation_baselines(corpus, config)
    found |= compression_baselines(held_out_bytes(corpus, config))
    assert found.pop("uniform") == math.log(corpus.tokenizer.vocab_size)
    assert set(found.values()) == {None}


def test_needs_no_tensorflow():
    code = "import sys, minigpt.insight.baselines; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
