"""Fixtures of the corpus tests."""

from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
