"""The committed engine.wasm is what the C files give."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import wasmtime

from scripts.build_engine import CLANG_VERSION, SOURCES, build


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


def test_the_engine_is_built_from_the_sources(compiler, tmp_path):
    build(tmp_path / "engine.wasm")
    is_same = (tmp_path / "engine.wasm").read_bytes() == (SOURCES / "engine.wasm").read_bytes()
    assert is_same, "engine.wasm is not up to date: run scripts/build_engine.py"


def test_the_engine_does_not_depend_on_the_folder(compiler, tmp_path, monkeypatch):
    folder = Path(shutil.copytree(SOURCES, tmp_path / "another folder"))
    monkeypatch.setattr("scripts.build_engine.SOURCES", folder)
    build(tmp_path / "engine.wasm")
    assert (tmp_path / "engine.wasm").read_bytes() == (SOURCES / "engine.wasm").read_bytes()


def test_the_engine_cannot_call_the_host():
    module = wasmtime.Module(wasmtime.Engine(), (SOURCES / "engine.wasm").read_bytes())
    assert module.imports == []
