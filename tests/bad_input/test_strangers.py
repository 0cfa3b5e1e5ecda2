"""Run directories from strangers cannot run code or reach other files."""

import ast
import hashlib
import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import minigpt
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from minigpt.runs import checkpoints
from minigpt.runs.checkpoints import BrokenCheckpointError, read_checkpoint
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.lock import run_lock
from minigpt.runs.records import append_lines, cut_lines
from minigpt.runs.run import Run
from minigpt.storage.atomic import remove_abandoned
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
    with pytest.raises(UserError, match="not a readable model"):
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
            append_lines(file, [{"epoch": 1}])
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "kept").write_text("mine")
    for name in (".minigpt-1.tmp", ".x.tmp"):
        (copied.path / name).symlink_to(folder)
        (copied.checkpoints_folder / name).symlink_to(folder)
    remove_abandoned(copied.path)
    checkpoints.remove_checkpoints(copied.checkpoints_folder, keep=())
    assert precious.read_text() == "mine" and (folder / "kept").read_text() == "mine"


@pytest.mark.parametrize("name", ["checkpoints", "snapshots"])
def test_files_of_another_run_behind_a_link_are_not_changed(name, copied, tmp_path):
    folder = copied.path / name
    mine = shutil.copytree(folder, tmp_path / "mine")
    before = sorted(path.name for path in mine.iterdir())
    shutil.rmtree(folder)
    folder.symlink_to(mine)
    with pytest.raises(UserError, match=f"its {name} is a symbolic link"):
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
        cut_lines(copied.metrics_file, 1)
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
        append_lines(copied.metrics_file, [{"epoch": 1}])


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
    with pytest.raises(UserError, match=r"data.paths|has changed since training"):
        minigpt.resume(copied.path, ["training.epochs=9"])
    assert (secret.stat().st_mtime_ns, secret.stat().st_mode) == (
        before.st_mtime_ns,
        before.st_mode,
    )


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
        file = os.path.relpath(path, PACKAGE)
        # listed.py refuses every class and function: tests/corpus/test_id_files.py.
        allowed = {"pickle"} if file == "tokenizers/listed.py" else set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = {getattr(node, key, None) for key in ("id", "attr", "arg")}
            if not isinstance(node, ast.Attribute):
                names.discard("system")  # A role in dialogues; os.system is an attribute.
            names |= {alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")}
            assert not names & forbidden - allowed, (file, node.lineno)
