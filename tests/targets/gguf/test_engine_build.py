"""The committed engine.wasm is what the C files give; no circles among these."""

import re
import shutil
import subprocess

import numpy as np
import pytest
import wasmtime

import minigpt
from minigpt.targets.gguf import instance
from scripts.build_engine import CLANG_VERSION, ENGINES, SOURCES, build
from tests.conftest import tiny_text
from tests.targets.gguf.models import GPT_SHAPES
from tests.targets.gguf.models import build as build_model


@pytest.fixture(scope="module")
def compiler() -> None:
    """Skips without the compiler that CONTRIBUTING.md names: another one gives other bytes."""
    for name in ("clang", "wasm-ld"):
        if not shutil.which(name):
            pytest.skip(
                f"needs {name} {CLANG_VERSION}, which builds the engine: it is not installed"
            )
        shown = subprocess.run([name, "--version"], capture_output=True, text=True, check=True)
        line = shown.stdout.splitlines()[0]
        version = re.search(r"(?:version|LLD) (\d+)\.", line)
        # Apple counts in its own way.
        if not version or version[1] != CLANG_VERSION or "Apple" in line:
            pytest.skip(f"needs {name} {CLANG_VERSION}, which builds the engine. Found: {line}")


@pytest.mark.parametrize("name", ENGINES)
def test_the_engine_is_built_from_the_sources(compiler, name, tmp_path):
    build(name, tmp_path / name)
    is_same = (tmp_path / name).read_bytes() == (SOURCES / name).read_bytes()
    assert is_same, f"{name} is not up to date: run scripts/build_engine.py"


@pytest.mark.parametrize("name", ENGINES)
def test_the_engine_cannot_call_the_host(name):
    module = wasmtime.Module(wasmtime.Engine(), (SOURCES / name).read_bytes())
    assert module.imports == []


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_without_simd_the_numbers_are_the_same(weights, tmp_path, monkeypatch):
    config = wasmtime.Config()
    config.wasm_relaxed_simd = False
    config.wasm_simd = False
    engine = wasmtime.Engine(config)
    with pytest.raises(wasmtime.WasmtimeError):
        wasmtime.Module(engine, (SOURCES / "engine.wasm").read_bytes())
    module = wasmtime.Module(engine, (SOURCES / "engine_without_simd.wasm").read_bytes())
    path = build_model(GPT_SHAPES["modern"]).write(tmp_path / "model.gguf", weights)
    ids = np.random.default_rng(0).integers(0, 30, (1, 20))
    model = minigpt.load_portable(path)
    expected, losses = model.logits(ids), model.learn(tiny_text(9), 3)
    monkeypatch.setattr(instance, "_module", lambda: (engine, module))
    other = minigpt.load_portable(path)
    np.testing.assert_array_equal(other.logits(ids), expected)
    assert other.learn(tiny_text(9), 3) == losses
    np.testing.assert_array_equal(other.logits(ids), model.logits(ids))
