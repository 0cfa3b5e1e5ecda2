"""Token ids of the user: nanoGPT's files, .npy files, and what is wrong with them."""

import json
import math
import os
import pickle
import re
import shlex
import struct
from pathlib import Path

import numpy as np
import pytest

from minigpt.config import load_config
from minigpt.config.complete import settings_to_choose
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from minigpt.runs.run import Run
from minigpt.tokenizers.listed import read_meta
from minigpt.training.start import complete_settings
from tests.cli.running import called, refused
from tests.conftest import TINY_SETTINGS, nothing_compiled
from tests.corpus.stores import decoded
from tests.settings import tokenizer_config

ROOT = Path(__file__).resolve().parents[2]
TEXT = "Čas is short,\nart is long.\n" * 60


def prepare(folder, text=TEXT):
    """What data/shakespeare_char/prepare.py of nanoGPT writes."""
    folder.mkdir()
    chars = sorted(set(text))
    stoi = {character: i for i, character in enumerate(chars)}
    itos = dict(enumerate(chars))
    cut = int(len(text) * 0.9)
    for name, part in (("train", text[:cut]), ("val", text[cut:])):
        np.array([stoi[c] for c in part], dtype=np.uint16).tofile(folder / f"{name}.bin")
    with open(folder / "meta.pkl", "wb") as file:
        pickle.dump({"vocab_size": len(chars), "itos": itos, "stoi": stoi}, file)
    return text[:cut], text[cut:]


def corpus_of(*paths, **tokenizer):
    sections = {"data": {"source": "ids", "paths": list(map(str, paths))}}
    config = load_config(sections | ({"tokenizer": tokenizer} if tokenizer else {}))
    return open_corpus(config.data, config.tokenizer)


def names_file(tmp_path, names="abcdefgh"):
    path = tmp_path / "names.txt"
    path.write_text("\n".join(names) + "\n")
    return {"kind": "listed", "path": str(path)}


def test_the_files_of_nanogpt(cache, tmp_path):
    texts = prepare(tmp_path / "data")
    corpus = corpus_of(tmp_path / "data")
    for part, text in zip((corpus.train, corpus.val), texts, strict=True):
        assert decoded(part, corpus.tokenizer) == ([text], False)
        assert (part.bytes, part.documents, part.tokens) == (len(text.encode()), 1, len(text))
    assert corpus.token_counts.sum() == len(texts[0])
    assert corpus.tokenizer.vocab_size == len(set(TEXT)) + 2
    assert not corpus.from_cache and corpus_of(tmp_path / "data").from_cache


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint64", ">i2"])
def test_arrays_of_every_integer_type(cache, tmp_path, dtype):
    ids = np.arange(200) % 8
    np.save(tmp_path / "games.npy", ids.astype(dtype))
    corpus = corpus_of(tmp_path / "games.npy", **names_file(tmp_path))
    np.testing.assert_array_equal(corpus.train.ids[1:], ids[:180])
    np.testing.assert_array_equal(corpus.val.ids[1:], ids[180:])
    # "a b c d ...": one byte less than two for each name.
    assert (corpus.train.bytes, corpus.val.bytes) == (359, 39)


def test_documents_end_at_the_end_token(cache, tmp_path):
    ids = [0, 1, 8, 2, 8] * 20
    np.save(tmp_path / "train.npy", ids)
    np.save(tmp_path / "val.npy", ids[:5])
    corpus = corpus_of(tmp_path, **names_file(tmp_path, [*"abcdefgh", "<end>"]))
    assert decoded(corpus.val, corpus.tokenizer) == (["a b", "c"], True)
    assert (corpus.val.documents, corpus.val.bytes, corpus.train.documents) == (2, 4, 40)


def test_ids_outside_the_vocabulary(cache, tmp_path):
    np.save(tmp_path / "a.npy", np.array([0, 7, 8, 9, -4, 3]))
    np.save(tmp_path / "b.npy", np.arange(8))
    np.save(tmp_path / "val.npy", np.array([-1]))
    for settings in (names_file(tmp_path), {}):
        with pytest.raises(UserError) as caught:
            corpus_of(tmp_path, **settings)
        problems = [line.partition(": ")[0] for line in caught.value.problems]
        wrong = [str(tmp_path / name) for name in ("a.npy", "val.npy")]
        assert problems == (wrong if settings else [str(tmp_path)])  # It has no names of the ids.
    with pytest.raises(UserError, match=r"tokenizer\.kind = 'character'"):
        corpus_of(tmp_path / "b.npy", kind="character")


class Evil:
    def __reduce__(self):
        return os.system, ("touch ran",)


@pytest.mark.parametrize("protocol", range(6))
def test_meta_pkl_runs_no_code(tmp_path, monkeypatch, protocol):
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps({"vocab_size": 1, "itos": {0: "a"}, "stoi": Evil()}, protocol)
    with pytest.raises(ValueError, match=r"asks for \w+.system, which could run a program"):
        read_meta(data)
    assert not list(tmp_path.iterdir())


def test_damaged_meta_pkl():
    good = pickle.dumps({"vocab_size": 2, "itos": {0: "a", 1: "b"}})
    assert read_meta(good) == ["a", "b"]
    for data in (
        *(good[:n] for n in range(0, len(good), 7)),
        # A place in the memo for which 32 GB would be needed.
        b"\x80\x02Nr" + struct.pack("<I", 2**32 - 1) + b".",
        pickle.dumps([1]),
        pickle.dumps({"itos": {1: "a"}}),
        pickle.dumps({"itos": {}}),
        pickle.dumps({"itos": {0: 1}}),
        pickle.dumps({"itos": {0: "a"}, "vocab_size": 2}),
    ):
        with pytest.raises(ValueError):
            read_meta(data)


def test_sizes_suit_the_number_of_ids(cache, tmp_path):
    prepare(tmp_path / "data")
    config = load_config({"data": {"source": "ids", "paths": [str(tmp_path / "data")]}})
    fitted = complete_settings(config, measures_speed=False)[0].config
    assert fitted.tokenizer.kind == "listed"
    assert fitted.tokenizer.vocab_size == len(set(TEXT)) + 2
    assert (fitted.model.max_len, fitted.model.num_layers) == (64, 2)


def test_a_run_does_not_need_the_files(cache, tmp_path, monkeypatch):
    """Trained by the command, sampled and evaluated; the text of the run is known by its fingerprint."""
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path / "data")
    settings = [
        f"{section}.{key}={json.dumps(value)}"
        for section, values in TINY_SETTINGS.items()
        for key, value in values.items()
        if section != "tokenizer"
    ]
    settings += ["data.source=ids", 'data.paths=["data"]', "training.steps_per_epoch=2"]
    options = [part for setting in settings for part in ("--set", setting)]
    with nothing_compiled():
        done = called("train", "--run", "run", *options)
    assert done.returncode == 0, done.stderr
    evaluated = called("evaluate", "run")
    assert f"over {len(TEXT) - int(len(TEXT) * 0.9):,} tokens" in evaluated.stdout, evaluated
    # Files of ids have the same scores as the held-out text, and so does its text.
    held_out = json.loads(called("evaluate", "run", "--json").stdout)
    text = TEXT[int(len(TEXT) * 0.9) :]
    Path("val.txt").write_text(text)
    found, of_text = (
        json.loads(called("evaluate", "run", "--text", file, "--json").stdout)
        for file in ("data/val.bin", "val.txt")
    )
    assert found == held_out
    # A text has an end token.
    assert (of_text["tokens"], of_text["bytes"]) == (len(text) + 1, len(text.encode()))
    assert math.isclose(of_text["loss"], held_out["loss"], rel_tol=0.1)
    np.save("wrong.npy", np.array([1, 99]))
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    Path("d.jsonl").write_text(json.dumps({"messages": messages}))
    missing, wrong = refused("evaluate", "run", "--text", "no.bin", "--text", "wrong.npy", cwd=".")
    assert missing.startswith("minigpt: no.bin: ")
    assert "wrong.npy" in wrong and "99" in wrong
    (line,) = refused("evaluate", "run", "--text", "d.jsonl", cwd=".")
    assert line.startswith("minigpt: d.jsonl:")
    assert Run("run").config.tokenizer.path == str(tmp_path / "data" / "meta.pkl")
    (tmp_path / "data").rename(tmp_path / "moved")
    sampled = called("sample", "run", "--prompt", "art", "--max-new-tokens", "4", "--json")
    assert len(json.loads(sampled.stdout)["text"]) <= 4
    # The names of a run serve other ids.
    (tmp_path / "moved" / "meta.pkl").unlink()
    assert corpus_of(tmp_path / "moved", kind="run", path="run").val.tokens == len(TEXT) // 10
    tokenizer = tokenizer_config(kind="run", path="run", vocab_size=3)
    with pytest.raises(UserError, match=r"tokenizer.vocab_size = 3: should be 1\d, the number"):
        open_corpus(load_config({"data": {"source": "python"}}).data, tokenizer)


@pytest.mark.slow
def test_the_commands_of_the_page_work(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path / "data")
    tiny = ["model.embed_dim=8", "model.num_layers=1", "training.epochs=1", "model.num_heads=2"]
    tiny += ["training.steps_per_epoch=2", "sampling.max_new_tokens=4"]
    page = (ROOT / "docs" / "token-ids.md").read_text(encoding="utf-8")
    samples = []
    for language, block in re.findall(r"```(python|sh)\n(.*?)```", page, re.DOTALL):
        if language == "python":
            exec(block, {})
            continue
        for line in block.splitlines():
            program, name, *arguments = shlex.split(line)
            assert program == "minigpt"
            more = [part for setting in tiny for part in ("--set", setting)]
            with nothing_compiled():
                done = called(name, *arguments, *(more if name == "train" else []))
            assert done.returncode == 0, done.stderr
            samples += [done.stdout] if name == "sample" else []
    assert [sample.split(" ")[0] for sample in samples] == ["art", "A"]
    bases = json.loads((Run("dna").tokenizer_folder / "names.json").read_text())
    assert bases == [[*"ACGT", "<end>"], False]


@pytest.mark.slow
def test_the_commands_for_users_of_nanogpt_work(cache, tmp_path, monkeypatch):
    """The configuration and the commands of docs/coming-from/nanogpt.md, with a smaller model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    prepare(tmp_path / "data" / "shakespeare_char")
    page = (ROOT / "docs" / "coming-from" / "nanogpt.md").read_text(encoding="utf-8")
    (tmp_path / "shakespeare.toml").write_text(re.search("```toml\n(.*?)```", page, re.S)[1])
    tiny = ["model.max_len=16", "model.embed_dim=12", "model.num_layers=1", "training.epochs=1"]
    tiny += ["training.steps_per_epoch=2", "training.batch_size=2", "sampling.max_new_tokens=4"]
    train, sample, resume = re.findall(r"^    minigpt (.*)$", page, re.M)
    with nothing_compiled():
        done = called(*shlex.split(train), *(f"--set={setting}" for setting in tiny))
        assert done.returncode == 0, done.stderr
        sampled = called(*shlex.split(sample))
        done = called(*shlex.split(resume.replace("epochs=30", "epochs=2")))
    assert sampled.stdout.startswith("ROMEO:") and done.returncode == 0, done.stderr
    # As in config/train_shakespeare_char.py of nanoGPT.
    config = load_config("shakespeare.toml")
    assert config.training.epochs * config.training.steps_per_epoch == 5000
    # Nothing of the model and of training is chosen.
    chosen = {setting.split(".")[0] for setting in settings_to_choose(config)}
    assert chosen == {"data", "tokenizer", "sampling"}


def test_several_files_are_one_text_whose_end_is_held_out(cache, tmp_path):
    for i in range(4):
        np.save(tmp_path / f"part{i}.npy", np.full(25, i))
    corpus = corpus_of(tmp_path, **names_file(tmp_path))
    np.testing.assert_array_equal(corpus.train.ids[1:], np.repeat([0, 1, 2, 3], 25)[:90])
    np.testing.assert_array_equal(corpus.val.ids[1:], [3] * 10)
