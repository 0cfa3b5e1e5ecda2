"""A portable file as a model to start from: the same settings, tokenizer and weights as its run."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import minigpt
from minigpt.errors import UserError
from minigpt.runs import layout
from minigpt.runs.base_file import BaseFile, run_or_file
from minigpt.runs.layout import bases, matches_checksum
from minigpt.runs.run import Run
from minigpt.targets.gguf.run_file import write_run_file
from minigpt.targets.gguf.writing import write_checksum
from tests.cli.running import refused
from tests.tiny import tiny_settings, tiny_text

OF_THE_PACKAGE = layout.BASES
TEXT = "Béla sat\n\n on the  Hill; žluť \u2581 \x10 9"


@pytest.mark.parametrize("name", ["tiny", "character", "chat", "post_norm", "pairs"])
def test_a_file_is_what_its_run_is(name, runs_folder):
    run = Run(runs_folder / name)
    file = BaseFile(run.portable_file)
    assert file.config.model == run.config.model.resolved()
    assert file.config.tokenizer == run.config.tokenizer
    assert file.config.sampling == run.config.sampling
    tokenizer, expected = file.load_tokenizer(), run.load_tokenizer()
    assert (tokenizer.pieces, tokenizer.chat) == (expected.pieces, expected.chat)
    # The fingerprint is a hash of all that decides how text is encoded, and of the scores of byte pairs,
    # of which only the order is in a file.
    assert tokenizer.fingerprint() == expected.fingerprint() or tokenizer.kind == "byte_pair"
    for text in (TEXT, (runs_folder / "tiny.txt").read_text()):
        np.testing.assert_array_equal(tokenizer.encode(text), expected.encode(text))
    for ours, right in zip(
        file.load_model().get_weights(), run.load_model().get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, right)


@pytest.mark.parametrize("weights", ["float16", "int8"])
def test_rounded_weights_are_those_that_the_engine_has(weights, tiny_run, tmp_path):
    write_run_file(tiny_run, tmp_path / "model.gguf", weights)
    ids = np.array([[1, 260, 270, 2, 3]], "int32")
    ours = minigpt.load(tmp_path / "model.gguf").logits(ids)
    engine = minigpt.load_portable(tmp_path / "model.gguf").logits(ids)
    np.testing.assert_allclose(ours, engine, rtol=0, atol=1e-4)
    assert np.abs(ours - minigpt.load(tiny_run).logits(ids)).max() > 1e-4


def test_training_goes_on_from_a_file(tiny_run, tiny_file, tmp_path, without_xla, no_export):
    file = tmp_path / "sent.gguf"
    shutil.copy(tiny_run.portable_file, file)
    training = {"init_from": str(file), "epochs": 1, "steps_per_epoch": 2, "learning_rate": 1e-6}
    settings = tiny_settings(tiny_file, training=training) | {"model": {}, "tokenizer": {}}
    run = minigpt.train(settings, tmp_path / "run")
    # After two steps that change nothing: the loss of the model in the file.
    before = minigpt.evaluate_run(tiny_run, [str(tiny_file)]).loss
    assert minigpt.evaluate_run(run, [str(tiny_file)]).loss == pytest.approx(before, rel=1e-3)
    assert run.config.training.init_from == str(file)
    # The state before the first update is the model in the file, rounded.
    write_run_file(tiny_run, tmp_path / "int8.gguf", "int8")
    ids = np.array([[1, 260, 270, 2, 3]], "int32")
    first, expected = run.snapshots()[0], tmp_path / "int8.gguf"
    both = (minigpt.load_portable(path).logits(ids) for path in (first, expected))
    # One of them is rounded at random.
    np.testing.assert_allclose(*both, rtol=0, atol=0.03)


def damaged(data: bytes, tmp_path: Path, checked: bool = True) -> BaseFile:
    file = tmp_path / "damaged.gguf"
    file.write_bytes(data)
    if checked:
        write_checksum(file)
        assert matches_checksum(file.read_bytes())
    return BaseFile(file)


def test_damage_is_one_line(tiny_run, tmp_path):
    data = tiny_run.portable_file.read_bytes()
    flipped = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
    with pytest.raises(UserError, match="damaged: its bytes do not match"):
        damaged(flipped, tmp_path, checked=False)
    with pytest.raises(UserError, match="is not a portable file that minigpt wrote"):
        damaged(b"GGUF" + bytes(100), tmp_path, checked=False)
    # A checksum says nothing about what the writer wanted.
    for end in (700, 3000, len(data) - 40):
        with pytest.raises(UserError, match=r"damaged\.gguf: damaged: \w+"):
            damaged(data[:end], tmp_path)
    narrower = data.replace(b'"embed_dim": 16', b'"embed_dim": 32')
    assert narrower != data
    with pytest.raises(UserError, match=r"damaged: ValueError: .* should be float32"):
        damaged(narrower, tmp_path).load_model()
    other_bytes = data.replace(bytes(range(60, 90)), bytes(range(61, 91)))
    assert other_bytes != data
    with pytest.raises(UserError, match="the first 258 pieces are not"):
        damaged(other_bytes, tmp_path).load_tokenizer()


@pytest.mark.parametrize("kind", ["gpt2", "listed"])
def test_a_tokenizer_that_a_file_does_not_hold_whole(kind, tiny_run, tmp_path):
    data = tiny_run.portable_file.read_bytes()
    old = b'"tokenizer": {"kind": "byte_pair", "vocab_size": 320, "lowercase": false}'
    new = b'"tokenizer": {"kind": "%s"}' % kind.encode()
    assert old in data
    file = damaged(data.replace(old, new + b" " * (len(old) - len(new))), tmp_path)
    file.keys["minigpt.tokenizer.kind"] = "word" if kind == "listed" else kind
    with pytest.raises(UserError, match=rf"tokenizer\.kind = '{kind}'.* start from its run"):
        file.load_tokenizer()


def test_what_is_neither_is_refused_with_what_there_is(own_bases, tmp_path):
    with pytest.raises(UserError, match=r"base \(english\), a run directory or a portable file"):
        run_or_file("engish", "training.init_from")
    with pytest.raises(UserError, match=r"notes\.gguf': is not a portable file"):
        (tmp_path / "notes.gguf").write_text("no model")
        run_or_file(tmp_path / "notes.gguf")


def test_a_base_has_a_name(own_bases, tmp_path, capsys):
    base, ids = BaseFile(bases()["english"]), np.array([[1, 2, 3]], "int32")
    expected = base.load_model()(ids).numpy()
    np.testing.assert_array_equal(minigpt.load("english").logits(ids), expected)
    opened = minigpt.open_model("english")
    np.testing.assert_allclose(opened.logits(ids), expected, rtol=0, atol=1e-4)
    minigpt.export_run("english", "keras", tmp_path / "model.keras")
    assert (tmp_path / "model.keras").is_file()


@pytest.mark.skipif("english" not in bases(), reason="data/base/english.gguf is not there yet")
def test_the_base_of_the_package(monkeypatch):
    monkeypatch.setattr(layout, "BASES", OF_THE_PACKAGE)
    ids = np.random.default_rng(0).integers(0, 4000, (2, 24)).astype("int32")
    ours, engine = minigpt.load("english"), minigpt.load_portable("english")
    np.testing.assert_allclose(ours.logits(ids), engine.logits(ids), rtol=0, atol=1e-3)
    line = "It was a dark night, and 1,000 “men” -- naïve, žluť -- slept.\n"
    np.testing.assert_array_equal(ours.tokenizer.encode(line), engine.tokenizer.encode(line))
    assert bases()["english"].stat().st_size <= 6_000_000


def test_a_base_is_evaluated_on_a_text(own_bases, tiny_run, tmp_path):
    (tmp_path / "book.txt").write_text(tiny_text(40))
    found = minigpt.evaluate_run("english", [str(tmp_path / "book.txt")])
    of_run = minigpt.evaluate_run(tiny_run, [str(tmp_path / "book.txt")])
    # The base has weights in int8.
    assert found.tokens == of_run.tokens and found.loss == pytest.approx(of_run.loss, rel=0.02)
    with pytest.raises(UserError, match="needs --text"):
        minigpt.evaluate_run("english")
    given = ("export", "english", "--format", "html", "--weights", "int8", "--output", "x")
    (line,) = refused(*given, cwd=tmp_path)
    assert line.startswith("minigpt: RUN english: ")
