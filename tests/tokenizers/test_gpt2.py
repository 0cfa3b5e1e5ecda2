"""GPT-2's tokenizer against the byte-level BPE of the tokenizers package.

The fixtures have the expected ids; scripts/make_parity_fixtures.py computes them with the package.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from minigpt.config import load_config
from minigpt.corpus.token_store import given_tokenizer, open_corpus
from minigpt.errors import UserError
from minigpt.tokenizers import base
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from tests.graphs import graph_of
from tests.mixed_lines import twenty_thousand

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "gpt2"
ENCODER, MERGES = (FIXTURES / name for name in ("encoder.json", "vocab.bpe"))
LINES: list[tuple[str, list[int]]] = json.loads((FIXTURES / "lines.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def tokenizer() -> GPT2Tokenizer:
    return GPT2Tokenizer.from_files(ENCODER.read_bytes(), MERGES.read_bytes())


def settings(encoder: Path, merges: Path, **changes):
    """`tokenizer` settings for two files through file://."""
    return {
        "kind": "gpt2",
        "encoder_url": encoder.absolute().as_uri(),
        "encoder_sha256": hashlib.sha256(encoder.read_bytes()).hexdigest(),
        "merges_url": merges.absolute().as_uri(),
        "merges_sha256": hashlib.sha256(merges.read_bytes()).hexdigest(),
        **changes,
    }


def test_encodes_and_decodes_like_the_tokenizers_package(tokenizer):
    texts = [text for text, _ in LINES]
    for (text, ids), found in zip(LINES, tokenizer.encode_many(texts), strict=True):
        assert found.tolist() == ids, repr(text)
        assert tokenizer.decode(ids) == text


def test_graph_encodes_and_decodes_like_the_tokenizers_package(tokenizer):
    ids = graph_of(tokenizer).encode(tf.constant([text for text, _ in LINES]))
    for (text, expected), found in zip(LINES, ids.to_list(), strict=True):
        assert found == expected, repr(text)
    decoded = graph_of(tokenizer).decode(ids).numpy()
    assert [text.decode() for text in decoded] == [text for text, _ in LINES]


@pytest.mark.slow
def test_twenty_thousand_mixed_lines_with_the_published_vocabulary(shared_data):
    folder = shared_data / "gpt2"
    published = settings(folder / "encoder.json", folder / "vocab.bpe")
    tokenizer = given_tokenizer(load_config({"tokenizer": published}).tokenizer)
    assert (tokenizer.vocab_size, tokenizer.end_id) == (50257, 50256)
    lines = twenty_thousand(shared_data / "aclImdb_v1.tar.gz")
    encoded = [ids.tolist() for ids in tokenizer.encode_many(lines)]
    expected = json.loads((FIXTURES / "twenty_thousand.json").read_text())
    assert [
        hashlib.sha256(json.dumps(encoded[i : i + 1000]).encode()).hexdigest()
        for i in range(0, len(lines), 1000)
    ] == expected
    assert [tokenizer.decode(ids) for ids in encoded] == lines
    # In the graph, all lines at once: the ids of a line do not depend on the other lines.
    assert graph_of(tokenizer).encode(tf.constant(lines)).to_list() == encoded


def test_single_bytes_are_only_decoded(tokenizer):
    byte = {tokenizer.pieces[i]: i for i in range(tokenizer.vocab_size)}
    ids = [byte[b"a"], byte[b"\xff"], byte[b"\x80"], byte[b"b"]]
    assert tokenizer.decode(ids) == "a\ufffd\ufffdb"
    assert graph_of(tokenizer).decode(tf.ragged.constant([ids], tf.int32)).numpy()[0].decode() == (
        "a\ufffd\ufffdb"
    )
    # A character of three tokens is left out until it is complete.
    parts = [byte[bytes([b])] for b in "€".encode()]
    assert [tokenizer.decode(parts[:n]) for n in range(4)] == ["", "", "", "€"]


def test_cutting_long_texts_changes_nothing(tokenizer, monkeypatch):
    text = "\n".join(text for text, _ in LINES)
    whole = tokenizer.encode(text)
    monkeypatch.setattr(base, "PART_SIZE", 3)
    monkeypatch.setattr(base, "GROUP_SIZE", 10)
    np.testing.assert_array_equal(tokenizer.encode(text), whole)


def test_loading_restores_the_tokenizer(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    opened = Tokenizer.load(tmp_path)
    assert opened.fingerprint() == tokenizer.fingerprint()
    assert opened.pieces == tokenizer.pieces and opened.end_id == tokenizer.end_id
    assert json.loads((tmp_path / "encoder.json").read_text()) == {
        token: i for token, i in json.loads(ENCODER.read_text()).items() if i != tokenizer.end_id
    }
    for name in ("encoder.json", "vocab.bpe", "tokenizer.json"):
        good = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(good[:-30])
        with pytest.raises(UserError, match=name) as caught:
            Tokenizer.load(tmp_path)
        assert len(caught.value.problems) == 1
        (tmp_path / name).write_bytes(good)


def test_a_vocabulary_that_sentencepiece_would_merge_differently_is_refused():
    """ "b c" comes before "a b": merging pairs never makes "abc", merging joined pieces would."""
    extra = ["a b", "b c", "ab c", ""]
    tokens = json.loads(ENCODER.read_bytes())
    tokens = {t: i for t, i in tokens.items() if len(t) == 1 or t.startswith("<|")}
    tokens |= {"ab": 1000, "bc": 1001, "abc": 1002}
    GPT2Tokenizer.from_files(json.dumps(tokens).encode(), "\n".join(extra).encode())
    extra[:2] = ["b c", "a b"]
    with pytest.raises(UserError, match="merge 3, ab c"):
        GPT2Tokenizer.from_files(json.dumps(tokens).encode(), "\n".join(extra).encode())


def test_pairs_with_the_published_vocabulary_have_a_start_token(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"the {n}\tking {n}\n" for n in range(40)))
    config = load_config(
        {
            "data": {"source": "pairs", "paths": [str(file)]},
            "model": {"kind": "encoder_decoder"},
            "tokenizer": settings(ENCODER, MERGES, vocab_size=400),
        }
    )
    for from_cache in (False, True):
        corpus = open_corpus(config.data, config.tokenizer)
        assert corpus.from_cache == from_cache
        assert (corpus.tokenizer.start_id, len(corpus.token_counts)) == (400, 401)
        assert 400 not in corpus.train.ids


def without(*names):
    return lambda tokens: {token: i for token, i in tokens.items() if token not in names}


MERGED = next(token for token in json.loads(ENCODER.read_bytes()) if len(token) == 3)
UNCHANGED = dict


@pytest.mark.parametrize(
    ("encoder", "merges", "named"),
    [
        (without(MERGED), list, "encoder.json"),
        (UNCHANGED, lambda lines: lines[:-20], "vocab.bpe"),
        (UNCHANGED, lambda lines: [lines[0], *lines[:0:-1]], "vocab.bpe"),
        (UNCHANGED, lambda lines: [*lines[:4], "abc", *lines[5:]], "two tokens"),
        (without("é"), list, "256 bytes"),
        (without("<|endoftext|>"), list, "end token"),
        (lambda tokens: tokens | {"a b": 9999}, list, "'a b'"),
        (lambda tokens: tokens | {"zz": 5}, list, "zz"),
    ],
)
def test_files_that_do_not_fit_each_other_are_refused(encoder, merges, named):
    tokens = encoder(json.loads(ENCODER.read_bytes()))
    lines = merges(MERGES.read_text(encoding="utf-8").split("\n"))
    with pytest.raises(UserError, match=named) as caught:
        GPT2Tokenizer.from_files(json.dumps(tokens).encode(), "\n".join(lines).encode())
    (problem,) = caught.value.problems
    assert "\n" not in problem


def test_no_text_encodes_to_the_end_token(tokenizer):
    assert tokenizer.end_id == tokenizer.vocab_size - 1
    assert tokenizer.end_id not in tokenizer.encode("a<|endoftext|>b")
    assert tokenizer.decode(tokenizer.encode("a<|endoftext|>b")) == "a<|endoftext|>b"
    assert tokenizer.decode([tokenizer.end_id]) == ""


def test_unused_ids_are_never_drawn():
    tokenizer = GPT2Tokenizer.from_files(ENCODER.read_bytes(), MERGES.read_bytes(), size=410)
    assert tokenizer.vocab_size == 410
    assert tokenizer.never_sampled_ids == tuple(range(400, 410))
    assert tokenizer.encode(LINES[0][0]).tolist() == LINES[0][1]
    padded = GPT2Tokenizer.from_files(
        ENCODER.read_bytes(), MERGES.read_bytes(), special={"<pad>": 401}, size=402
    )
    assert padded.never_sampled_ids == (400, 401) and padded.end_id == 399
    assert padded.decode([401, *LINES[0][1], 400]) == LINES[0][0]
    assert padded.encode("<pad>").tolist() == tokenizer.encode("<pad>").tolist()
    with pytest.raises(UserError, match="different ids below 399"):
        GPT2Tokenizer.from_files(ENCODER.read_bytes(), MERGES.read_bytes(), size=399)
