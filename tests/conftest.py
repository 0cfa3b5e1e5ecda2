"""Fixtures of several tests: a separate cache folder, a tiny run."""

import ctypes
import fcntl
import gc
import json
import os
import random
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
from minigpt.targets.run_files import SavedModelFolder
from tests.report import pytest_terminal_summary, tally  # noqa: F401
from tests.settings import NEVER_COMPILED

# Messages name commands as in an activated environment.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ.pop("UV", None)

# Before anything asks for it: no test reads or writes the user's own cache.
SHARED_DATA = Path(
    os.environ.get("MINIGPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)


@pytest.hookimpl(tryfirst=True)  # Before pytest-xdist reads the marks.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sends each file to one worker (`--dist loadgroup`)."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(str(item.path)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Ends the session if pytest-xdist ignores the groups: each worker would set up all fixtures."""
    is_grouped = getattr(session.config.option, "loadgroup", False)
    if is_grouped and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("pytest-xdist ignores xdist_group (pytest-xdist issue 1386)")
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


def tiny_text(sentences: int = 600, seed: int = 0) -> str:
    """Text with something to learn: who sat where, with letters outside ASCII."""
    draw = random.Random(seed)
    names, places = ("Ana", "Béla", "Čeněk", "Dirk"), ("hill", "roof", "boat", "wall")
    return "\n".join(
        f"{draw.choice(names)} sat on the {draw.choice(places)} and ate {draw.randint(2, 9)} figs."
        for _ in range(sentences)
    )


TINY_SETTINGS = {
    "tokenizer": {"kind": "byte_pair", "vocab_size": 320},
    "model": {"max_len": 16, "embed_dim": 16, "num_heads": 2, "num_layers": 2, "dropout_rate": 0.0},
    "training": {
        "epochs": 2,
        "steps_per_epoch": 40,
        "max_minutes": "none",
        "batch_size": 8,
        "optimizer": "adamw",
        "learning_rate": 1e-2,
        "warmup_steps": 0,
        "weight_decay": 0.0,
        "clip_norm": "none",
        "early_stopping_patience": "none",
    },
    # Samples take a third of the time of a short run. `tiny_run` has them.
    "sampling": {"prompts": [], "max_new_tokens": 12},
}


# Where a test reads samples.
SAMPLED = {"prompts": ["Ana sat", ""], "max_new_tokens": 12}


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Returns a copy of a folder that only one of several workers makes.

    Args:
      factory: of temporary folders.
      name: of the folder.
      make: makes it at the path that it is called with.
    """
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    root = factory.getbasetemp().parent if is_worker else factory.getbasetemp()
    folder = root / "made_once" / name
    folder.parent.mkdir(exist_ok=True)
    with open(folder.with_name(f"{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            try:
                make(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    return shutil.copytree(folder, factory.mktemp("runs") / name)


@pytest.fixture(scope="session")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "tiny.txt"
    file.write_text(tiny_text(), encoding="utf-8")
    return file


def tiny_settings(file: Path, **sections: dict) -> dict:
    """TINY_SETTINGS on a file, some settings changed."""
    settings = {
        "data": {"source": "files", "paths": [str(file)], "val_fraction": 0.1},
        **TINY_SETTINGS,
    }
    return {name: {**settings.get(name, {}), **sections.get(name, {})} for name in settings}


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


_write_saved_model = SavedModelFolder.best_ready


@pytest.fixture(scope="session", autouse=True)
def without_saved_models() -> Iterator[None]:
    """Training runs end without saved_model/, whose functions take as long to trace as all others.

    What is tested with it: `tiny_run`, `pair_run`, tests that use `with_saved_models`, and commands
    in processes of their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SavedModelFolder, "best_ready", lambda *_: None)
        yield


@contextmanager
def saved_models() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SavedModelFolder, "best_ready", _write_saved_model)
        yield


@pytest.fixture
def with_saved_models() -> Iterator[None]:
    with saved_models():
        yield


@pytest.fixture
def without_xla() -> Iterator[None]:
    """Where a few steps or tokens are enough: XLA takes longer to compile than all else together.

    What is tested with XLA: the runs of the session fixtures, tests/generation, tests/models,
    test_samples.py, test_saved_model.py, and commands in processes of their own.
    """
    with nothing_compiled():
        yield


@pytest.fixture
def no_export() -> Iterator[None]:
    with nothing_exported():
        yield


@pytest.fixture(scope="session")
def tiny_run(tiny_file: Path, tmp_path_factory: pytest.TempPathFactory) -> minigpt.Run:
    """A finished run of a model that is small enough to be trained in seconds."""
    with saved_models():
        path = made_once(
            tmp_path_factory,
            "tiny",
            lambda path: minigpt.train(tiny_settings(tiny_file, sampling=SAMPLED), path),
        )
    return minigpt.Run(path)


def tiny_dialogues(count: int = 120) -> list[dict]:
    """Dialogues of one to three questions, in the form of OpenAI."""
    draw = random.Random(0)
    found = []
    for _ in range(count):
        messages = []
        for _ in range(draw.randint(1, 3)):
            who, number = draw.choice("ABCD"), draw.choice(("two", "six"))
            messages.append({"role": "user", "content": f"{who} has {number}. {who}?"})
            messages.append({"role": "assistant", "content": f"{number}."})
        found.append({"messages": messages})
    return found


@pytest.fixture(scope="session")
def dialogue_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("dialogues") / "tiny.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in tiny_dialogues()))
    return file


@pytest.fixture(scope="session")
def chat_run(dialogue_file: Path, tmp_path_factory: pytest.TempPathFactory) -> minigpt.Run:
    """A finished run of a model that was trained on dialogues."""
    settings = tiny_settings(
        dialogue_file,
        data={"source": "dialogues"},
        tokenizer={"kind": "character", "vocab_size": 64},
        model={"max_len": 64},
    )
    with saved_models():
        path = made_once(tmp_path_factory, "chat", lambda path: minigpt.train(settings, path))
    return minigpt.Run(path)


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
def signatures(tiny_run: minigpt.Run) -> Any:
    """Those of the export of `tiny_run`. A shape is compiled once for all tests here, too."""
    import tensorflow_text  # noqa: F401 - registers the tokenizer's operations, as docs/guide.md says

    return tf.saved_model.load(str(tiny_run.saved_model_folder)).signatures


def letters(count: int, seed: int) -> list[str]:
    """Strings of letters with spaces between them: "c a b"."""
    draw = random.Random(seed)
    return [" ".join(draw.choices("abcdefgh", k=draw.randint(3, 8))) for _ in range(count)]


def backwards(text: str) -> str:
    return " ".join(reversed(text.split()))


PAIR_SETTINGS = {
    "data": {"source": "pairs", "val_pairs": 200, "length_buckets": 2},
    "tokenizer": {"kind": "character", "vocab_size": 64},
    "model": {
        "kind": "encoder_decoder",
        "block": "post_norm",
        "max_len": 20,
        "embed_dim": 32,
        "num_heads": 4,
        "num_layers": 1,
        "position": "sinusoidal",
        "scale_embeddings": True,
        "activation": "relu",
        "dropout_rate": 0.0,
    },
    "training": {
        "epochs": 2,
        # Twice what most seeds need.
        "steps_per_epoch": 600,
        "max_minutes": "none",
        "batch_size": 64,
        "optimizer": "adamw",
        "weight_decay": 0.0,
        "clip_norm": "none",
        "learning_rate": 1e-2,
        "warmup_steps": 50,
        "adam_beta_2": 0.98,
        "seed": 1,
    },
    "sampling": {"translations": 3},
}


def pair_settings(file: Path, **sections: dict) -> dict:
    """PAIR_SETTINGS on a file, some settings changed."""
    settings = {**PAIR_SETTINGS, "data": {**PAIR_SETTINGS["data"], "paths": [str(file)]}}
    return {name: {**settings[name], **sections.get(name, {})} for name in settings}


@pytest.fixture(scope="session")
def pair_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs with something to learn: the target is the source backwards."""
    file = tmp_path_factory.mktemp("pairs") / "backwards.tsv"
    pairs = (f"{text}\t{backwards(text)}\n" for text in letters(4000, seed=0))
    file.write_text("".join(pairs), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def pair_run(pair_file: Path, tmp_path_factory: pytest.TempPathFactory) -> minigpt.Run:
    """A finished run of a model that says a sequence backwards; trained in half a minute, without XLA."""
    with saved_models(), nothing_compiled():
        path = made_once(
            tmp_path_factory,
            "backwards",
            lambda path: minigpt.train(pair_settings(pair_file), path),
        )
    return minigpt.Run(path)


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Returns a function that returns the messages logged since its last call."""
    caplog.set_level("INFO", "minigpt")

    def logged() -> list[str]:
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return logged
