from pathlib import Path

import pytest

import minigpt
from minigpt.targets.targets import target_named
from tests.conftest import made_once


@pytest.fixture(scope="session")
def onnx_folder(tiny_run, tmp_path_factory) -> Path:
    """An ONNX export of `tiny_run`. Tests copy it before they change it."""
    for package in target_named("onnx").packages:
        pytest.importorskip(package, reason="needs the extra onnx")
    return made_once(
        tmp_path_factory, "onnx", lambda path: minigpt.export_run(tiny_run, "onnx", path)
    )
