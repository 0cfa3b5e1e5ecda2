"""The properties that every kind of tokenizer has."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minigpt.errors import UserError
from minigpt.tokenizers import base
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.graphs import graph_of
from tests.settings import tokenizer_config

CORPUS = [
    "The king, the Queen and the fool: 'Who's there?'\nNobody   but the NIGHT \U0001f600.\n",
    "Ünïcode, 東京 and Σίσυφος; the fool said <end> to the king.\tThe end.",
]
# Difficult text: reserved characters and names of tokens, controls, invisible and multi-byte characters.
TRAPS = ["<end>", "<0x41>", "<unk>", "[UNK]", "\x10", "\x10a", "\x10b", "\u2581", "\u2585"]
TRAPS += ["\0", "\ufeff", "\u2047", "\t", "\r\n", "   ", "\x1c", "\x85", "\u2028", "\u200b"]
TRAPS += ["\ufffe", "\ue000", "\U0010ffff", "İ", "ΑΣ", "the", "東", "\U0001f600"]
TEXT = st.lists(st.sampled_from(TRAPS) | st.text(max_size=4), max_size=8).map("".join)
FEW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

KINDS = [
    ("word", 30, True),
    ("character", 25, False),
    ("byte_pair", 300, False),
    ("byte_pair", 320, True),
]


def learn(kind, vocab_size, lowercase=False, texts=CORPUS):
    config = tokenizer_config(kind=kind, vocab_size=vocab_size, lowercase=lowercase)
    return learn_tokenizer(texts, config)


@pytest.fixture(scope="module", params=KINDS, ids=lambda p: "-".join(map(str, p)))
def tokenizer(request):
    return learn(*request.param)


def texts_of(tensor):
    return [text.decode() for text in tensor.numpy()]


def ragged(rows):
    return tf.RaggedTensor.from_row_lengths(
        np.array([i for row in rows for i in row], np.int32), [len(row) for row in rows]
    )


def ids_of_bytes(tokenizer, data):
    """Returns the ids of those bytes that have a token."""
    found = {piece: i for i, piece in reversed(list(enumerate(tokenizer.pieces)))}
    return [found[bytes([byte])] for byte in data if bytes([byte]) in found]


@FEW
@given(texts=st.lists(TEXT, min_size=1, max_size=20))
def test_graph_and_python_encode_alike(tokenizer, texts):
    expected = [ids.tolist() for ids in tokenizer.encode_many(texts)]
    assert graph_of(tokenizer).encode(texts).to_list() == expected
    assert [tokenizer.encode(text).tolist() for text in texts] == expected
    assert all(ids.dtype == np.int32 for ids in tokenizer.encode_many(texts))


@pytest.mark.slow
@FEW
@given(data=st.data())
def test_graph_and_python_decode_any_ids_alike(tokenizer, data):
    ids = st.integers(0, tokenizer.vocab_size - 1)
    if tokenizer.kind != "word":  # more incomplete characters and escapes than by chance
        hot = b"\x10ab\xe2\x96\x81\xf0\x9f\x98\x80\xed\xa0\xef\xbb\xbf\xf4\x8f\x90\xe0\xc2\xc1\xff"
        ids |= st.sampled_from(ids_of_bytes(tokenizer, hot))
    row = st.tuples(st.lists(ids, max_size=6), st.lists(ids, max_size=6))
    rows = data.draw(st.lists(row, min_size=1, max_size=60))
    wholes = [prompt + new for prompt, new in rows]
    decoded = [tokenizer.decode(whole) for whole in wholes]
    added = [tokenizer.continuation(prompt, new) for prompt, new in rows]
    for (prompt, _), text, whole in zip(rows, added, decoded, strict=True):
        assert tokenizer.decode(prompt) + text == whole
    graph = graph_of(tokenizer)
    assert texts_of(graph.decode(ragged(wholes))) == decoded
    prompts, news = zip(*rows, strict=True)
    assert texts_of(graph.continuation(ragged(prompts), ragged(news))) == added


@pytest.mark.parametrize("kind", ["byte_pair", "character"])
def test_all_incomplete_characters(kind):
    """All endings of up to three bytes, each byte at a limit of one of UTF-8's ranges."""
    tokenizer = learn(kind, 300)
    edges = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC]
    edges += [0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
    edges = ids_of_bytes(tokenizer, edges)
    ends = [list(end) for n in (1, 2, 3) for end in itertools.product(edges, repeat=n)]
    decoded = texts_of(graph_of(tokenizer).decode(ragged(ends)))
    assert decoded == [tokenizer.decode(end) for end in ends]
    assert tokenizer.decode(ids_of_bytes(tokenizer, b"a\xf0\x9f\x98")) == "a"


@FEW
@given(text=TEXT)
def test_lossless_tokenizers_restore_the_text(tokenizer, text):
    ids = tokenizer.encode(text)
    if tokenizer.lossless and tokenizer.unknown_id not in ids:
        assert tokenizer.decode(ids) == text
    assert tokenizer.end_id not in ids
    assert ids.max(initial=0) < tokenizer.vocab_size and ids.min(initial=0) >= 0


def test_special_tokens_add_no_text(tokenizer):
    ids = tokenizer.encode("the king").tolist()
    special = [i for i, piece in enumerate(tokenizer.pieces) if not piece]
    assert special == sorted(
        {tokenizer.end_id, *tokenizer.never_sampled_ids} - {*tokenizer.byte_ids}
    )
    assert tokenizer.decode(special + ids[:1] + special + ids[1:] + special) == "the king"


def test_ids_outside_the_vocabulary(tokenizer):
    for wrong in (-1, tokenizer.vocab_size):
        with pytest.raises(ValueError, match=f"Received: {wrong}"):
            tokenizer.decode([3, wrong])
        ids = tokenizer.encode("the").tolist()
        assert texts_of(graph_of(tokenizer).decode(ragged([[wrong, *ids, wrong]]))) == ["the"]


def test_half_a_surrogate_pair_is_an_error(tokenizer):
    with pytest.raises(ValueError, match="position 1: surrogates"):
        tokenizer.encode("a\ud800")
    with pytest.raises(ValueError, match="surrogates"):
        type(tokenizer).learn(["\ud800"], 300, False)


@FEW
@given(texts=st.lists(st.binary(max_size=12), min_size=1, max_size=20))
def test_the_graph_reads_any_bytes_as_python_does(tokenizer, texts):
    expected = [tokenizer.encode(text.decode("utf-8", "replace")).tolist() for text in texts]
    assert graph_of(tokenizer).encode(texts).to_list() == expected


def test_cutting_long_texts_changes_nothing(tokenizer, monkeypatch):
    text = "".join(CORPUS * 3) + "\n\n \nΟΔΟΣ\nΣ\r\n the\u2581\x10\n"
    whole = tokenizer.encode_many([text, "", text[:9]])
    monkeypatch.setattr(base, "PART_SIZE", 7)
    monkeypatch.setattr(base, "GROUP_SIZE", 10)
    for ids, expected in zip(tokenizer.encode_many([text, "", text[:9]]), whole, strict=True):
        np.testing.assert_array_equal(ids, expected)


def test_loading_restores_the_tokenizer(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "new")
    opened = Tokenizer.load(tmp_path / "new")
    assert type(opened) is type(tokenizer)
    assert opened.pieces == tokenizer.pieces
    assert opened.fingerprint() == tokenizer.fingerprint()
    text = CORPUS[0] + "".join(TRAPS)
    np.testing.assert_array_equal(opened.encode(text), tokenizer.encode(text))
    assert type(tokenizer).load(tmp_path / "new").lossless == tokenizer.lossless


def test_a_start_token_is_in_no_text_and_adds_none(tokenizer, tmp_path):
    with_start = tokenizer.with_start()
    start = with_start.start_id
    assert tokenizer.start_id == tokenizer.end_id != start
    assert start in with_start.never_sampled_ids and with_start.vocab_size == tokenizer.vocab_size
    assert (with_start.piece(start), with_start.decode([start])) == ("<start>", "")
    for text in [*CORPUS, *TRAPS, "<start>"]:
        assert start not in with_start.encode(text)
        np.testing.assert_array_equal(with_start.encode(text), tokenizer.encode(text))
    with_start.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.start_id == start
    assert loaded.fingerprint() == with_start.fingerprint() != tokenizer.fingerprint()


def test_damaged_files_are_named(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    files = sorted(tmp_path.iterdir())
    assert [f.name for f in files] == (
        ["sentencepiece.model"] * (tokenizer.kind == "byte_pair")
    ) + ["tokenizer.json"]
    for file in files:
        good = file.read_bytes()
        for bad in (good[:-20], b"", b"{}", b"\xff", good.replace(b'"lowercase"', b'"x"')):
            if bad == good:
                continue
            file.write_bytes(bad)
            with pytest.raises(UserError) as caught:
                Tokenizer.load(tmp_path)
            (problem,) = caught.value.problems
            assert problem.startswith(f"{file}: ") and "\n" not in problem
        file.unlink()
        with pytest.raises(UserError, match=f"{file.name}: No such file"):
            Tokenizer.load(tmp_path)
        file.write_bytes(good)


def test_a_changed_setting_is_damage(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    file = tmp_path / "tokenizer.json"
    state = json.loads(file.read_text())
    for name in [*(state.keys() - {"format", "kind"}), "start_id"]:
        for other in (None, -1, {"a": None}, ["~"]):
            file.write_text(json.dumps(state | {name: other}))
            with pytest.raises(UserError, match="damaged"):
                Tokenizer.load(tmp_path)


@pytest.mark.parametrize(("old", "new"), [(b'"word"', b'"x"'), (b'"format": 1', b'"format": 9')])
def test_unknown_kind_or_format(tmp_path, old, new):
    learn("word", 30).save(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_bytes(file.read_bytes().replace(old, new))
    with pytest.raises(UserError, match=f"{file}: damaged"):
        Tokenizer.load(tmp_path)


def test_empty_inputs(tokenizer):
    assert tokenizer.encode_many([]) == []
    assert tokenizer.encode("").shape == (0,)
    assert tokenizer.decode([]) == ""
    assert graph_of(tokenizer).encode(tf.zeros([0], tf.string)).to_list() == []
    assert texts_of(graph_of(tokenizer).decode(ragged([[], []]))) == ["", ""]


@pytest.mark.parametrize("kind", ["word", "character", "byte_pair"])
@pytest.mark.parametrize("texts", [[], [""], ["a"], [" \t\n\0"], ["\u2585\u2581"]])
def test_vocabulary_shrinks_to_the_text(kind, texts):
    tokenizer = learn(kind, 5000, texts=texts)
    assert tokenizer.vocab_size < 265
    text = "a b\n\u2581 \u2585"
    assert graph_of(tokenizer).encode([text]).to_list() == [tokenizer.encode(text).tolist()]
    if kind != "word":
        assert tokenizer.decode(tokenizer.encode(text)) == text
