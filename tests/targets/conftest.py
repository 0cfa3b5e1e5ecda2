from pathlib import Path

import pytest

import minigpt
from minigpt.targets.targets import target_named


@pytest.fixture(scope="session")
def onnx_folder(tiny_run, tmp_path_factory) -> Path:
    """An ONNX export of `tiny_run`. Tests copy it before they change it."""
    for package in target_named("onnx").packages:
        pytest.importorskip(package, reason="needs the extra onnx")
    path = tmp_path_factory.mktemp("onnx") / "model"
    minigpt.export_run(tiny_run, "onnx", path)
    return path
