"""Fixtures of several tests: a separate cache folder, a tiny run."""

import ctypes
import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from tensorflow.python.framework.ops import gradient_registry

import minigpt
from minigpt.generation.step_models import CachedGPT
from minigpt.targets.gguf.run_file import write_run_file
from minigpt.targets.run_files import BestExport
from tests.report import pytest_terminal_summary, tally  # noqa: F401
from tests.settings import NEVER_COMPILED
from tests.tiny import (  # noqa: F401
    PLACEHOLDER,
    SAMPLED,
    TINY_SETTINGS,
    backwards,
    letters,
    move_runs,
    pair_settings,
    tiny_dialogues,
    tiny_settings,
    tiny_text,
)

# Messages name commands as in an activated environment.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ.pop("UV", None)

RUNS = Path(__file__).parent / "fixtures" / "runs"

# Before anything asks for it: no test reads or writes the user's own cache.
SHARED_DATA = Path(
    os.environ.get("MINIGPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)


def pytest_collection_finish() -> None:
    # Keras collects garbage for each matrix that it quantizes or gives LoRA; the objects of the
    # libraries are then not searched every time.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def forgotten_gradients() -> Iterator[None]:
    """Frees the memory of a file's models.

    TensorFlow registers each custom gradient of a traced function by name, here that of silu. With it,
    the graph and the model would stay until the process ends.
    """
    yield
    registered = gradient_registry._registry
    for name in [name for name in registered if name.startswith("CustomGradient-")]:
        del registered[name]
    gc.collect()
    # The allocator of glibc keeps what was freed, unless it is asked.
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    os.environ["MINIGPT_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip("needs the shared development data: set MINIGPT_DATA to its folder")
    return SHARED_DATA


@contextmanager
def nothing_compiled() -> Iterator[None]:
    """XLA compiles neither the updates of a training run nor the steps of a decoder."""
    compile_model = keras.Model.compile

    def without(model: keras.Model, *arguments: Any, **options: Any) -> None:
        compile_model(model, *arguments, **{**options, "jit_compile": False})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.Model, "compile", without)
        patch.setattr(CachedGPT, "jit_compile", NEVER_COMPILED)
        yield


@contextmanager
def nothing_exported() -> Iterator[None]:
    """Training runs end without an export, which takes longer than the rest of a small one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minigpt.training.pipeline.export_best", lambda *_: {})
        yield


_write_export = BestExport.best_ready


def _write_no_saved_model(export, run, model) -> None:
    if export.name != "saved_model":
        _write_export(export, run, model)


@pytest.fixture(scope="session", autouse=True)
def without_saved_models() -> Iterator[None]:
    """Training runs end without saved_model/, whose functions take as long to trace as all others.

    What is tested with it: `saved_model`, tests that use `with_saved_models`, and commands in
    processes of their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BestExport, "best_ready", _write_no_saved_model)
        yield


@contextmanager
def saved_models() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BestExport, "best_ready", _write_export)
        yield


@pytest.fixture
def with_saved_models() -> Iterator[None]:
    with saved_models():
        yield


@pytest.fixture
def without_xla() -> Iterator[None]:
    """Where a few steps or tokens are enough: XLA takes longer to compile than all else together.

    What is tested with XLA: tests/generation, tests/models, the slow tests of certificates, and
    commands in processes of their own.
    """
    with nothing_compiled():
        yield


@pytest.fixture
def no_export() -> Iterator[None]:
    with nothing_exported():
        yield


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the committed runs, whose paths lead to the copy: scripts/make_run_fixtures.py wrote them.

    Nothing may write into it. They have no SavedModel: see `saved_model`.
    """
    folder = tmp_path_factory.mktemp("written") / "runs"
    shutil.copytree(RUNS, folder, copy_function=shutil.copyfile)
    move_runs(folder, PLACEHOLDER, str(folder))
    for file in folder.glob("*/model.gguf"):
        file.touch()  # A portable file is older than no other file of its run.
    return folder


@pytest.fixture(scope="session")
def tiny_file(runs_folder: Path) -> Path:
    return runs_folder / "tiny.txt"


@pytest.fixture(scope="session")
def dialogue_file(runs_folder: Path) -> Path:
    return runs_folder / "tiny.jsonl"


@pytest.fixture(scope="session")
def pair_file(runs_folder: Path) -> Path:
    """Pairs with something to learn: the target is the source backwards."""
    return runs_folder / "backwards.tsv"


@pytest.fixture(scope="session")
def tiny_run(runs_folder: Path) -> minigpt.Run:
    """A finished run of a small model."""
    return minigpt.Run(runs_folder / "tiny")


@pytest.fixture(scope="session")
def chat_run(runs_folder: Path) -> minigpt.Run:
    """A finished run of a model that was trained on dialogues."""
    return minigpt.Run(runs_folder / "chat")


@pytest.fixture(scope="session")
def pair_run(runs_folder: Path) -> minigpt.Run:
    """A finished run of a model that says a sequence backwards."""
    return minigpt.Run(runs_folder / "pairs")


@pytest.fixture(scope="session", autouse=True)
def without_bases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Texts are learned from nothing, by models that are smaller than a base."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minigpt.runs.layout.BASES", tmp_path_factory.mktemp("no_bases"))
        yield


@pytest.fixture
def own_bases(tiny_run: minigpt.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of bases in place of that of the package: the model of `tiny_run` is "english"."""
    folder = tmp_path / "bases"
    folder.mkdir()
    write_run_file(tiny_run, folder / "english.gguf", "int8")
    monkeypatch.setattr("minigpt.runs.layout.BASES", folder)
    return folder


@pytest.fixture(scope="session")
def run_from_base(tiny_run: minigpt.Run, tmp_path_factory: pytest.TempPathFactory) -> minigpt.Run:
    """A run of eight steps that began from the portable file of `tiny_run`; nothing may write into it."""
    folder = tmp_path_factory.mktemp("from_base")
    write_run_file(tiny_run, folder / "english.gguf", "int8")
    (folder / "book.txt").write_text(tiny_text(60, seed=1).replace("figs", "nuts"))
    short = {"training": {"epochs": 1, "steps_per_epoch": 8}, "sampling.max_new_tokens": 12}
    text, base, run = folder / "book.txt", folder / "english.gguf", folder / "run"
    with nothing_compiled():
        return minigpt.train(text=text, base=base, run=run, overrides=short)


@pytest.fixture(scope="session")
def saved_model(tiny_run: minigpt.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel of `tiny_run` that XLA does not compile: tests ask it in many shapes."""
    path = tmp_path_factory.mktemp("saved") / "model"
    with nothing_compiled():
        minigpt.export_run(tiny_run, "saved_model", path)
    return path


@pytest.fixture(scope="session")
def pair_saved_model(pair_run: minigpt.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel of `pair_run`."""
    path = tmp_path_factory.mktemp("saved") / "pairs"
    minigpt.export_run(pair_run, "saved_model", path)
    return path


@pytest.fixture(scope="session")
def opened(tiny_run: minigpt.Run) -> minigpt.TextModel:
    """The model of `tiny_run`. XLA compiles its decoder for each number of rows, and capacity."""
    return minigpt.load(tiny_run)


@pytest.fixture(scope="session")
def opened_without_xla(tiny_run: minigpt.Run) -> minigpt.TextModel:
    """The same for tests that generate tokens in many shapes; for them, nothing is compiled."""
    model = minigpt.load(tiny_run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CachedGPT, "jit_compile", NEVER_COMPILED)
        assert not model._decoder.model.jit_compile
    return model


@pytest.fixture(scope="session")
def signatures(saved_model: Path) -> Any:
    """Those of the SavedModel of `tiny_run`."""
    import tensorflow_text  # noqa: F401 - registers the tokenizer's operations, as docs/sharing.md says

    return tf.saved_model.load(str(saved_model)).signatures


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Returns a function that returns the messages logged since its last call."""
    caplog.set_level("INFO", "minigpt")

    def logged() -> list[str]:
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return logged
