"""Token stores: their contents, when they are written again, and what a killed process leaves."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from minigpt.corpus import sources, store_files, token_ids, token_store
from minigpt.corpus.documents import Documents, Piece, ingest
from minigpt.corpus.split import split
from minigpt.corpus.text_files import read_texts
from minigpt.corpus.token_ids import encode_texts
from minigpt.corpus.token_store import open_corpus, reopen_corpus
from minigpt.corpus.tokenizer import even_sample
from minigpt.errors import UserError
from minigpt.tokenizers.character import CharacterTokenizer
from tests.settings import data_config, tokenizer_config

CHARACTERS = tokenizer_config(kind="character", vocab_size=100)
WORDS = [
    "apple", "bread", "cloud", "dream", "eagle", "flame", "grass", "house", "ivory", "jewel",
    "knife", "lemon", "mango", "knight", "ocean", "piano", "queen", "river", "stone", "tiger",
]  # fmt: skip
TEXTS = [f"{word} and {word}s" for word in WORDS]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files(tmp_path, texts, name="text.txt"):
    path = tmp_path / name
    path.write_text("|".join(texts), encoding="utf-8")
    return data_config(source="files", paths=[str(path)], document_separator="|")


def decoded(part, tokenizer):
    """The documents of a part, and whether the last one has its end."""
    ids = np.asarray(part.ids, np.int64)
    assert ids[0] == tokenizer.end_id
    *whole, rest = np.split(ids[1:], np.flatnonzero(ids[1:] == tokenizer.end_id) + 1)
    texts = [tokenizer.decode(document[:-1]) for document in whole]
    return (texts, True) if not len(rest) else ([*texts, tokenizer.decode(rest)], False)


@pytest.mark.parametrize("kind", ["character", "byte_pair"])
def test_layout_of_whole_documents(tmp_path, cache, kind, messages):
    config = tokenizer_config(kind=kind, vocab_size=300)
    corpus = open_corpus(files(tmp_path, TEXTS), config)
    lines = messages()
    train, val = split(ingest(Piece(text.encode(), True) for text in TEXTS), 0.1)
    for part, documents in ((corpus.train, train), (corpus.val, val)):
        texts = [text for text, _ in documents.pieces()]
        assert decoded(part, corpus.tokenizer) == (texts, True)
        assert part.ids.dtype == np.uint16 and isinstance(part.ids, np.memmap)
        assert part.documents == len(texts)
        assert part.bytes == sum(len(text.encode()) for text in texts)
        assert part.tokens == len(part.ids) - 1
    assert corpus.token_counts.dtype == np.int64
    np.testing.assert_array_equal(
        corpus.token_counts,
        np.bincount(corpus.train.ids[1:], minlength=corpus.tokenizer.vocab_size),
    )
    assert (corpus.train.documents, corpus.val.documents) == (18, 2)
    assert corpus.path == cache / "tokens" / corpus.fingerprint and not corpus.from_cache
    assert any(f"learning the {kind} tokenizer" in line for line in lines)
    size = corpus.tokenizer.vocab_size
    assert [line for line in lines if "yields" in line] == [
        f"the text yields only {size} tokens; using {size} instead of 300"
    ] * (size < 300)
    # A small text is not "0.0 MB".
    assert f"learning the {kind} tokenizer from {corpus.train.bytes} bytes" in lines
    assert all("\n" not in line for line in lines)


def test_layout_of_a_text_cut_in_two(tmp_path):
    corpus = open_corpus(files(tmp_path, ["abcabcabca"]), CHARACTERS)
    assert decoded(corpus.train, corpus.tokenizer) == (["abcabcabc"], False)
    assert decoded(corpus.val, corpus.tokenizer) == (["a"], True)
    assert (corpus.train.tokens, corpus.val.tokens) == (9, 2)


def test_unknown_tokens(tmp_path):
    corpus = open_corpus(files(tmp_path, ["a" * 90 + "ßßbbbbbbbb"]), CHARACTERS)
    assert (corpus.train.unknown_tokens, corpus.val.unknown_tokens) == (0, 10)


def test_large_vocabularies_need_uint32(tmp_path, monkeypatch):
    tokenizer = open_corpus(files(tmp_path, TEXTS), CHARACTERS).tokenizer
    assert encode_texts(TEXTS, tokenizer).ids.dtype == np.uint16
    monkeypatch.setattr(type(tokenizer), "vocab_size", 65535)
    assert encode_texts(TEXTS, tokenizer).ids.dtype == np.uint16
    monkeypatch.setattr(type(tokenizer), "vocab_size", 65536)
    assert encode_texts(TEXTS, tokenizer).ids.dtype == np.uint32


@pytest.mark.parametrize("kind", ["character", "byte_pair", "word"])
def test_pieces_and_groups_do_not_change_the_ids(tmp_path, monkeypatch, kind):
    texts = [" ".join(TEXTS), "é  ü\n\n" * 50, "short"]
    config = tokenizer_config(kind=kind, vocab_size=400)
    tokenizer = open_corpus(files(tmp_path, texts), config).tokenizer
    whole = encode_texts(texts, tokenizer)
    monkeypatch.setattr(token_ids, "_ENCODE_CHARACTERS", 50)
    monkeypatch.setattr(Documents.pieces, "__defaults__", (20,))
    np.testing.assert_array_equal(encode_texts(texts, tokenizer).ids, whole.ids)
    expected = np.concatenate(
        [[tokenizer.end_id], *([*tokenizer.encode(text), tokenizer.end_id] for text in texts)]
    )
    np.testing.assert_array_equal(whole.ids, expected)


def test_a_second_run_reads_only_the_store(tmp_path, monkeypatch):
    first = open_corpus(files(tmp_path, TEXTS), CHARACTERS)

    def refuse(*_, **__):
        raise AssertionError("read again")

    monkeypatch.setattr(token_store, "ingest", refuse)
    monkeypatch.setattr(token_store, "learn_from", refuse)
    second = open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    assert second.from_cache and second.fingerprint == first.fingerprint
    np.testing.assert_array_equal(second.train.ids, first.train.ids)
    np.testing.assert_array_equal(second.token_counts, first.token_counts)
    assert second.tokenizer.fingerprint() == first.tokenizer.fingerprint()
    assert (second.val.documents, second.val.bytes) == (first.val.documents, first.val.bytes)
    # The same text under another name, too.
    assert open_corpus(files(tmp_path, TEXTS, "renamed.txt"), CHARACTERS).from_cache


def test_changed_text_of_equal_size_and_date_is_noticed(tmp_path):
    first = open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    path = tmp_path / "text.txt"
    status = path.stat()
    path.write_text("|".join([TEXTS[0].upper(), *TEXTS[1:]]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    second = open_corpus(
        data_config(source="files", paths=[str(path)], document_separator="|"), CHARACTERS
    )
    assert not second.from_cache and second.fingerprint != first.fingerprint


def test_every_setting_that_determines_the_ids_changes_the_key(tmp_path):
    data = files(tmp_path, TEXTS)
    keys = {
        open_corpus(*settings).fingerprint
        for settings in (
            (data, CHARACTERS),
            (data.model_copy(update={"val_fraction": 0.3}), CHARACTERS),
            (data.model_copy(update={"document_separator": "and"}), CHARACTERS),
            (data, CHARACTERS.model_copy(update={"vocab_size": 20})),
            (data, CHARACTERS.model_copy(update={"lowercase": True})),
            (data, CHARACTERS.model_copy(update={"kind": "word"})),
        )
    }
    assert len(keys) == 6


@pytest.mark.parametrize("kind", ["character", "byte_pair", "word"])
def test_held_out_documents_never_reach_the_tokenizer(tmp_path, kind):
    config = tokenizer_config(kind=kind, vocab_size=300)
    first = open_corpus(files(tmp_path, TEXTS), config)
    _, val = split(ingest(Piece(text.encode(), True) for text in TEXTS), 0.1)
    held_out = {text for text, _ in val.pieces()}
    changed = ["ÄÖÜ new words 123" if text in held_out else text for text in TEXTS]
    second = open_corpus(files(tmp_path, changed), config)
    assert not second.from_cache and second.val.bytes != first.val.bytes
    assert second.tokenizer.fingerprint() == first.tokenizer.fingerprint()
    np.testing.assert_array_equal(second.train.ids, first.train.ids)


def test_learning_from_an_even_sample(tmp_path, monkeypatch, messages):
    texts = [f"{number:03} " * 20 for number in range(1000)]
    documents = ingest(Piece(text.encode(), True) for text in texts)
    sample = [int(text[:3]) for text in even_sample(documents, documents.bytes // 10)]
    assert len(sample) == 100 and set(np.diff(sample)) == {10}
    assert list(even_sample(documents, documents.bytes)) == texts

    monkeypatch.setattr(CharacterTokenizer, "max_learn_bytes", 100)
    open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    assert any("from 100 bytes, an even sample of" in line for line in messages())


def damage(path: Path, how: str) -> None:
    if how == "shorter":
        path.write_bytes(path.read_bytes()[:-2])
    elif how == "garbage":
        path.write_bytes(b"{")
    elif how == "flipped":
        data = bytearray(path.read_bytes())
        data[-len(data) // 3] ^= 1
        path.write_bytes(data)
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["shorter", "garbage", "flipped", "missing"])
@pytest.mark.parametrize("name", ["train.bin", "val.bin", "meta.json", "counts.npy", "tokenizer"])
def test_a_damaged_store_is_written_again(tmp_path, how, name, messages):
    first = open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    ids = np.array(first.train.ids)
    path = first.path / name
    damage(next(path.iterdir()) if path.is_dir() else path, how)
    second = open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    assert not second.from_cache
    assert f"{first.path} was damaged and is rewritten" in messages()
    np.testing.assert_array_equal(second.train.ids, ids)
    assert open_corpus(files(tmp_path, TEXTS), CHARACTERS).from_cache
    assert [path.name for path in second.path.parent.iterdir()] == [second.fingerprint]


def test_simultaneous_builders(tmp_path, cache):
    data = files(tmp_path, TEXTS)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: open_corpus(data, CHARACTERS), range(4)))
    for corpus in found:
        np.testing.assert_array_equal(corpus.train.ids, found[0].train.ids)
    assert [path.name for path in (cache / "tokens").iterdir()] == [found[0].fingerprint]


@pytest.mark.parametrize("damaged", [False, True])
def test_a_store_that_appears_while_building(tmp_path, monkeypatch, damaged):
    data = files(tmp_path, TEXTS)
    folder = open_corpus(data, CHARACTERS).path
    shutil.rmtree(folder)

    def write_late(*arguments):
        monkeypatch.undo()
        monkeypatch.setenv("MINIGPT_CACHE", str(folder.parents[1]))
        if damaged:
            folder.mkdir()
            (folder / "meta.json").write_text("{}")
        else:
            open_corpus(data, CHARACTERS)
        store_files.write_store(*arguments)

    monkeypatch.setattr(token_store, "write_store", write_late)
    corpus = open_corpus(data, CHARACTERS)
    assert len(corpus.train.ids) and open_corpus(data, CHARACTERS).from_cache
    assert [path.name for path in corpus.path.parent.iterdir()] == [corpus.fingerprint]


@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError, OSError])
def test_no_unfinished_store_is_left(tmp_path, cache, monkeypatch, error):
    def fail(*_, **__):
        raise error("stop")

    monkeypatch.setattr(store_files, "sha256_of", fail)
    with pytest.raises(UserError if error is OSError else error):
        open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    assert not list((cache / "tokens").iterdir())


def test_killed_while_writing(tmp_path, cache):
    data = files(tmp_path, TEXTS)
    script = textwrap.dedent("""
        import sys, time
        from tests.settings import data_config, tokenizer_config
        from minigpt.corpus import token_store
        def stop(folder):
            print("written", flush=True)
            time.sleep(60)
        token_store.read_store = lambda folder: stop(folder) if folder.exists() else None
        token_store.open_corpus(
            data_config(source="files", paths=[sys.argv[1]], document_separator="|"),
            tokenizer_config(kind="character", vocab_size=100),
        )
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", script, data.paths[0]],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout.readline() == "written\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    (left,) = (cache / "tokens").iterdir()
    assert left.name.startswith(".minigpt-")

    corpus = open_corpus(data, CHARACTERS)
    assert not corpus.from_cache
    assert list((cache / "tokens").iterdir()) == [corpus.path]


def test_a_text_that_changes_while_it_is_being_read(tmp_path, cache, monkeypatch):
    fingerprints = iter(["0" * 64, "1" * 64])
    monkeypatch.setattr(sources.TextFiles, "fingerprint", lambda self: next(fingerprints))
    with pytest.raises(UserError, match="changed"):
        open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    assert not list((cache / "tokens").iterdir())


def test_stories(monkeypatch):
    monkeypatch.setattr(sources.stories, "stories", lambda: iter(TEXTS))
    monkeypatch.setattr(sources.stories, "FINGERPRINT", "0" * 64)
    corpus = open_corpus(data_config(), CHARACTERS)
    assert corpus.train.documents + corpus.val.documents == len(TEXTS)


def test_no_text_and_no_cache_folder(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="only white space"):
        open_corpus(files(tmp_path, [" ", "\n"]), CHARACTERS)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="MINIGPT_CACHE"):
        open_corpus(files(tmp_path, TEXTS), CHARACTERS)


def test_texts_to_evaluate(tmp_path):
    corpus = open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    part = encode_texts(read_texts([tmp_path / "text.txt"], "|"), corpus.tokenizer)
    assert decoded(part, corpus.tokenizer) == (TEXTS, True)
    assert (part.documents, part.bytes) == (20, sum(map(len, TEXTS)))
    np.testing.assert_array_equal(encode_texts(TEXTS, corpus.tokenizer).ids, part.ids)
    with pytest.raises(UserError, match="no such file"):
        read_texts([tmp_path / "none"])
    (tmp_path / "blank").write_text(" ")
    with pytest.raises(UserError, match="white space"):
        read_texts([tmp_path / "blank"])


def test_meta_json_describes_the_store(tmp_path):
    corpus = open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    meta = json.loads((corpus.path / "meta.json").read_text())
    assert meta["settings"]["tokenizer"]["kind"] == "character"
    assert meta["train"]["tokens"] == corpus.train.tokens


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"MINIGPT_CACHE": "/a/b", "XDG_CACHE_HOME": "/c"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/minigpt"),
        ({"HOME": "/home/me"}, "/home/me/.cache/minigpt"),
    ],
)
def test_cache_folder(monkeypatch, environment, folder):
    for name in ("MINIGPT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert token_store.cache_folder() == Path(folder)


# Recorded with minigpt 0.1: the keys and held-out texts of TEXTS, of TEXTS whose last three documents
# are copies of the first three, and of 40 pairs of which 30 are held out.
KEYS = {
    "plain": "6c91d3bcf787b15bbb0319f6ce027d62f2e04cbdd98bb8836ac945268cb7417e",
    "words": "c4b18ea9c636b69d85a865fa9d0e639ce8350d6a4b28ba7c9fbea07703a1f626",
    "byte_pair": "7f79b97d0b5eee03277c72e1214d2da0617c0ccbfd8fdc7f151e07934eaa091b",
    "copies": "bb2b2aaad8393ddfc7a333b7b2f04c7caefea5f67043189bc58ed33a5f0b18cc",
    "pairs": "08adfa1d99edafd1ff1d9a706c6f2cb761b9fc7ce5037c811119f571edc23568",
    "five_pairs": "a7a8bf8caa1255c31ab6d629a635cbc459a6d660717617cdeee4826dd4edf422",
    "thirty_pairs": "bbec0b08abfd0fc2aa3c3563b4e00c947515c57b7c7bf2dfe6629e54409752e6",
}
COPIES = [TEXTS[number % 17] for number in range(20)]


def pairs(tmp_path, **options):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"s{number}\tt{number}\n" for number in range(40)))
    return data_config(source="pairs", paths=[str(path)], **options)


def test_keys_are_those_of_minigpt_0_1(tmp_path):
    words = tokenizer_config(kind="word", vocab_size=100, lowercase=True)
    byte_pair = tokenizer_config(vocab_size=300)
    texts = files(tmp_path, TEXTS)
    assert open_corpus(texts, CHARACTERS).fingerprint == KEYS["plain"]
    assert open_corpus(texts, words).fingerprint == KEYS["words"]
    assert open_corpus(texts, byte_pair).fingerprint == KEYS["byte_pair"]
    assert open_corpus(pairs(tmp_path), CHARACTERS).fingerprint == KEYS["pairs"]
    five = open_corpus(pairs(tmp_path, val_pairs=5), CHARACTERS)
    assert five.fingerprint == KEYS["five_pairs"] and five.split_rules == (1, 2)


def test_copies_are_counted_and_held_out_together(tmp_path, messages):
    corpus = open_corpus(files(tmp_path, COPIES), CHARACTERS)
    assert "3 documents are copies of others" in messages()
    train, val = (decoded(part, corpus.tokenizer)[0] for part in (corpus.train, corpus.val))
    assert sorted(train + val) == sorted(COPIES) and not set(train) & set(val)
    assert corpus.fingerprint != KEYS["copies"]
    again = open_corpus(files(tmp_path, COPIES), CHARACTERS)
    assert again.from_cache and again.fingerprint == corpus.fingerprint and again.duplicates == 3


def test_a_recorded_corpus_keeps_its_split(tmp_path):
    data = files(tmp_path, COPIES)
    new = open_corpus(data, CHARACTERS)
    old = reopen_corpus(data, CHARACTERS, None, KEYS["copies"])
    # What minigpt 0.1 held out, although "apple" is in the training text too.
    assert decoded(old.val, old.tokenizer) == (["knife and knifes", "apple and apples"], True)
    assert not old.from_cache and old.fingerprint == KEYS["copies"]
    for corpus in (old, new):
        again = reopen_corpus(data, CHARACTERS, None, corpus.fingerprint)
        assert again.from_cache and again.fingerprint == corpus.fingerprint
        np.testing.assert_array_equal(again.val.ids, corpus.val.ids)
    # A new training does not use the old split.
    assert open_corpus(data, CHARACTERS).fingerprint == new.fingerprint
    assert reopen_corpus(files(tmp_path, TEXTS), CHARACTERS, None, new.fingerprint) is None

    data = pairs(tmp_path, val_pairs=30)
    assert open_corpus(data, CHARACTERS).val.documents == 40
    assert reopen_corpus(data, CHARACTERS, None, KEYS["thirty_pairs"]).val.documents == 60


@pytest.mark.parametrize("texts", [TEXTS, COPIES])
def test_a_store_of_minigpt_0_1(tmp_path, texts):
    """It lacks the split rules, so a new training cannot know whether copies are on both sides."""
    data = files(tmp_path, texts)
    key = KEYS["plain" if texts is TEXTS else "copies"]
    old = reopen_corpus(data, CHARACTERS, None, key)
    meta = json.loads((old.path / "meta.json").read_text())
    del meta["split_rules"], meta["duplicates"]
    (old.path / "meta.json").write_text(json.dumps(meta))

    assert reopen_corpus(data, CHARACTERS, None, key).from_cache
    new = open_corpus(data, CHARACTERS)
    # The store is used where its split is right.
    assert (new.fingerprint == key) == new.from_cache == (texts is TEXTS)
    again = open_corpus(data, CHARACTERS)
    assert again.from_cache and again.fingerprint == new.fingerprint
    assert 2 in again.split_rules
