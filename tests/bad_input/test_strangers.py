"""Run directories and archives from strangers cannot run code or reach other files."""

import ast
import gzip
import hashlib
import io
import json
import os
import pickle
import shutil
import tarfile
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

import minigpt
from minigpt.config import DataConfig
from minigpt.corpus import downloaded, sources
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from minigpt.runs import checkpoints
from minigpt.runs.checkpoints import BrokenCheckpointError, checkpoint_paths, read_checkpoint
from minigpt.runs.lock import run_lock
from minigpt.runs.run import Run
from tests.conftest import tiny_settings
from tests.settings import data_config, tokenizer_config

PACKAGE = Path(minigpt.__file__).parent


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


@pytest.fixture
def mark(tmp_path) -> Path:
    """A path that exists once code has run."""
    mark = tmp_path / "code_has_run"
    pickle.loads(pickle.dumps(Evil(mark)))
    assert mark.exists()
    mark.unlink()
    return mark


@pytest.fixture
def copied(tiny_run, tmp_path) -> Run:
    return Run(shutil.copytree(tiny_run.path, tmp_path / "run"))


def with_valid_checksums(path: Path, changes: dict | None = None) -> None:
    """Writes a manifest with valid checksums for a changed state, as a stranger can."""
    state, manifest = path / checkpoints.STATE, path / checkpoints.MANIFEST
    content = json.loads(manifest.read_text())
    del content["sha256"]
    data = state.read_bytes()
    content["state"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    content["state"] |= changes or {}
    content["sha256"] = checkpoints._sha256_of_content(content)
    manifest.write_text(json.dumps(content))


def test_a_pickle_in_place_of_arrays(copied, mark):
    evil = pickle.dumps(Evil(mark))
    for path in checkpoint_paths(copied.checkpoints_folder):
        (path / checkpoints.STATE).write_bytes(evil)
        with_valid_checksums(path)
        with pytest.raises(BrokenCheckpointError):
            read_checkpoint(path)
    copied.model_file.write_bytes(evil)
    with pytest.raises(UserError, match=r"not a complete .keras file"):
        copied.load_model()
    copied.model_file.unlink()
    with pytest.raises(UserError, match="checkpoints are damaged"):
        copied.load_model()
    for file in copied.tokenizer_folder.iterdir():
        right = file.read_bytes()
        file.write_bytes(evil)
        with pytest.raises(UserError, match="damaged"):
            copied.load_tokenizer()
        file.write_bytes(right)
    copied.corpus_file.write_bytes(evil)
    with pytest.raises(UserError, match="damaged"):
        _ = copied.corpus
    assert not mark.exists()


def test_a_pickle_among_the_token_ids(tiny_file, tmp_path, monkeypatch, caplog, mark):
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "cache"))
    settings = (
        data_config(source="files", paths=[str(tiny_file)]),
        tokenizer_config(kind="character", vocab_size=60),
    )
    store = open_corpus(*settings).path
    np.save(store / "counts.npy", np.array([Evil(mark)], object), allow_pickle=True)
    assert not open_corpus(*settings).from_cache
    assert f"{store} was damaged and is rewritten" in caplog.messages and not mark.exists()


@pytest.mark.slow
def test_a_model_with_a_lambda(copied, mark):
    run_code = eval(f"lambda x: (__import__('pathlib').Path({str(mark)!r}).touch(), x)[1]")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(run_code)])
    assert mark.exists()  # Building the model has called it.
    mark.unlink()
    model.save(copied.model_file)
    with pytest.raises(UserError, match=r"model.keras: not a readable model"):
        copied.load_model()
    with pytest.raises(ValueError, match="arbitrary code"):
        keras.models.load_model(copied.model_file)
    assert not mark.exists()


def test_only_the_weights_of_a_keras_file_are_read(copied, mark):
    """Its description of the model is ignored."""
    right = copied.load_model().get_weights()
    command = {"command": f"touch {mark}"}
    evil = {"module": "os", "class_name": "system", "config": command, "registered_name": None}
    with zipfile.ZipFile(copied.model_file) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(copied.model_file, "w") as file:
        for name, data in (members | {"config.json": json.dumps(evil).encode()}).items():
            file.writestr(name, data)
    for ours, theirs in zip(copied.load_model().get_weights(), right, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not mark.exists()


def test_a_model_that_would_not_fit_in_memory(copied):
    text = copied.config_file.read_text()
    copied.config_file.write_text(text.replace("embed_dim = 16", "embed_dim = 160000000"))
    with pytest.raises(UserError, match=r"model.embed_dim = 160000000, .* this machine has"):
        copied.load_model()


def test_links_out_of_a_run_are_not_followed(copied, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (copied.path / "lock").unlink(missing_ok=True)
    (copied.path / "lock").symlink_to(precious)
    with pytest.raises(UserError, match="cannot be written"), run_lock(copied.path):
        pass
    for file in (copied.metrics_file, copied.samples_file):
        file.unlink()
        file.symlink_to(precious)
        with pytest.raises(OSError, match="symbolic"):
            copied.append(file, {"epoch": 1})
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "kept").write_text("mine")
    for name in (".step-00000001.1.tmp", ".x.tmp"):
        (copied.path / name).symlink_to(folder)
        (copied.checkpoints_folder / name).symlink_to(folder)
    copied.remove_unfinished()
    checkpoints.remove_checkpoints(copied.checkpoints_folder, keep=())
    assert precious.read_text() == "mine" and (folder / "kept").read_text() == "mine"


def test_checkpoints_of_another_run_behind_a_link_are_not_changed(copied, tmp_path):
    mine = shutil.copytree(copied.checkpoints_folder, tmp_path / "mine")
    before = sorted(path.name for path in mine.iterdir())
    shutil.rmtree(copied.checkpoints_folder)
    copied.checkpoints_folder.symlink_to(mine)
    with pytest.raises(UserError, match="its checkpoints is a symbolic link"):
        minigpt.resume(copied.path, ["training.epochs=3"])
    assert sorted(path.name for path in mine.iterdir()) == before


@pytest.mark.parametrize(
    ("state", "content"),
    [
        ({"bytes": float("inf")}, None),
        ({}, {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}),
        ({}, {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}),
    ],
)
def test_an_odd_checkpoint_with_valid_checksums_is_broken(copied, state, content):
    path = checkpoint_paths(copied.checkpoints_folder)[-1]
    if content:
        head = json.dumps({"weights/00000": content}).encode()
        (path / checkpoints.STATE).write_bytes(len(head).to_bytes(8, "little") + head + b"\0\0")
    with_valid_checksums(path, state)
    if content and content["dtype"] == "BF16":
        assert list(read_checkpoint(path).arrays) == ["weights/00000"]
        return
    with pytest.raises(BrokenCheckpointError):
        read_checkpoint(path)


@pytest.mark.parametrize("name", ["tokenizer/tokenizer.json", "corpus.json", "metrics.jsonl"])
def test_deeply_nested_json_is_damaged(copied, name):
    (copied.path / name).write_text("[" * 100_000 + "\n")
    if name == "metrics.jsonl":
        copied.cut_lines(copied.metrics_file, 1)
        assert copied.metrics_file.read_bytes() == b""
        return
    with pytest.raises(UserError, match="damaged"):
        _ = copied.load_tokenizer(), copied.corpus


def test_nothing_waits_for_a_pipe(copied):
    for name in ("tokenizer/tokenizer.json", "corpus.json", "metrics.jsonl"):
        (copied.path / name).unlink()
        os.mkfifo(copied.path / name)
    manifest = checkpoint_paths(copied.checkpoints_folder)[-1] / checkpoints.MANIFEST
    manifest.unlink()
    os.mkfifo(manifest)
    with pytest.raises(UserError, match="not a regular file"):
        copied.load_tokenizer()
    with pytest.raises(UserError, match="not a regular file"):
        _ = copied.corpus
    with pytest.raises(BrokenCheckpointError, match="not a regular file"):
        read_checkpoint(manifest.parent)
    with pytest.raises(OSError, match="No such device"):
        copied.append(copied.metrics_file, {"epoch": 1})


def test_paths_in_a_config_are_only_read(copied, tmp_path, monkeypatch):
    """The text of another file does not match the run; it is not changed."""
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret " * 2000)
    before = secret.stat()
    text = copied.config_file.read_text()
    old = json.dumps(copied.config.data.paths[0])
    copied.config_file.write_text(text.replace(old, json.dumps(str(secret))))
    with pytest.raises(UserError, match="has changed since training"):
        minigpt.evaluate_run(copied)
    with pytest.raises(UserError, match=r"data.paths|has changed since training began"):
        minigpt.resume(copied.path, ["training.epochs=9"])
    assert (secret.stat().st_mtime_ns, secret.stat().st_mode) == (
        before.st_mtime_ns,
        before.st_mode,
    )


def archive(path: Path, members: dict[str, bytes]) -> DataConfig:
    """Returns settings for an archive of these members and two links."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE)):
            member = tarfile.TarInfo(f"aclImdb/train/pos/{number}_1.txt")
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    return described(path)


def described(path: Path) -> DataConfig:
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    return data_config(source="imdb", url=path.as_uri(), sha256=right)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "a/b/cache"))
    return tmp_path / "a/b/cache"


REVIEW = "aclImdb/train/pos/9_9.txt"


def test_names_and_links_in_an_archive_are_not_followed(tmp_path, cache):
    names = ["../../x", "/tmp/minigpt-absolute", "aclImdb/train/pos/../../../../../x.txt"]
    data = archive(tmp_path / "a.tar.gz", dict.fromkeys(names, b"evil") | {REVIEW: b"good"})
    (piece,) = sources.open_source(data).pieces()
    assert piece.text == b"good"
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == sorted(
        ["a.tar.gz", f"{data.sha256}-a.tar.gz"]
    )
    assert not Path("/tmp/minigpt-absolute").exists()


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("MAX_BYTES", "decompresses to more than 100 bytes"),
        ("MAX_MEMBERS", "contains more than 100 members"),
        ("MAX_MEMBER_BYTES", f"{REVIEW}: has more than 100 bytes"),
    ],
)
def test_a_decompression_bomb(limit, words, tmp_path, cache, monkeypatch):
    members = {f"{number}": b"" for number in range(150)} | {REVIEW: b"0" * 3_000_000}
    if limit == "MAX_MEMBER_BYTES":
        members = {REVIEW: b"0" * 3_000_000}
    data = archive(tmp_path / "a.tar.gz", members)
    monkeypatch.setattr(downloaded, limit, 100)
    with pytest.raises(UserError, match=words):
        list(sources.open_source(data).pieces())


def test_tar_members_that_expand(tmp_path, cache, monkeypatch):
    """A sparse member can have any size; tarfile reads headers into memory completely."""
    sparse = tarfile.TarInfo(REVIEW)
    sparse.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    # A hole of 50 MB, which is the size of the member.
    block[386:398] = block[483:495] = b"%011o\0" % 50_000_000
    block[398:410] = b"%011o\0" % 0
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    path = tmp_path / "sparse.tar.gz"
    path.write_bytes(gzip.compress(bytes(block) + bytes(1024)))
    with pytest.raises(UserError, match="contains no IMDB reviews"):
        list(sources.open_source(described(path)).pieces())

    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 3_000_000
    path = tmp_path / "header.tar.gz"
    path.write_bytes(gzip.compress(header.tobuf(tarfile.USTAR_FORMAT) + bytes(3_000_000)))
    monkeypatch.setattr(downloaded, "MAX_MEMBER_BYTES", 100_000)
    with pytest.raises(UserError, match="a member has more than 100,000 bytes"):
        list(sources.open_source(described(path)).pieces())


def test_a_text_that_decompresses_to_any_size(tmp_path, cache, monkeypatch):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"0" * 5_000_000))
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    data = data_config(source="shakespeare", url=path.as_uri(), sha256=right)
    monkeypatch.setattr(downloaded, "MAX_BYTES", 1_000_000)
    with pytest.raises(UserError, match="decompresses to more than 1,000,000 bytes"):
        list(sources.open_source(data).pieces())


def test_an_endless_download(tmp_path, cache, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_bytes(b"0" * 3_000_000)
    data = data_config(source="shakespeare", url=path.as_uri(), sha256="0" * 64)
    monkeypatch.setattr("minigpt.storage.downloads.MAX_BYTES", 1_000_000)
    with pytest.raises(UserError, match="has more than 1,000,000 bytes"):
        list(sources.open_source(data).pieces())
    assert not any(cache.rglob("*.txt"))


def test_nothing_is_decompressed_before_the_checksum_is_verified(tmp_path, cache, monkeypatch):
    data = archive(tmp_path / "a.tar.gz", {REVIEW: b"good"})
    monkeypatch.setattr(tarfile, "open", None)
    monkeypatch.setattr(downloaded, "_LimitedGzip", None)
    wrong = data.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(UserError, match="wrong checksum"):
        list(sources.open_source(wrong).pieces())


def test_only_the_configured_address_is_contacted(tmp_path, cache, monkeypatch):
    asked = []

    def refuse(opener, request, *_, **__):
        asked.append(request.full_url)
        raise OSError("no network here")

    monkeypatch.setattr("urllib.request.OpenerDirector.open", refuse)
    settings = tiny_settings(tmp_path / "x")
    address = "https://example.org/a.txt"
    settings["data"] = {"source": "shakespeare", "url": address, "sha256": "0" * 64}
    with pytest.raises(UserError, match="no network here"):
        minigpt.train(settings, tmp_path / "run")
    assert asked == [address] and not (tmp_path / "run").exists()


def test_nothing_that_can_run_code_is_called():
    """Checks the names used in the whole package."""
    forbidden = {"pickle", "marshal", "shelve", "dill", "joblib", "yaml", "eval", "exec"}
    forbidden |= {
        "allow_pickle",
        "enable_unsafe_deserialization",
        "Lambda",
        "extractall",
        "extract",
    }
    forbidden |= {"load_model_from_json", "model_from_json", "system", "popen"}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = {getattr(node, key, None) for key in ("id", "attr", "arg")}
            names |= {alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")}
            assert not names & forbidden, (os.path.relpath(path, PACKAGE), node.lineno)
