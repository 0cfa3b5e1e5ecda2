"""Fixtures of the corpus tests."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Returns a function that returns the messages logged since its last call."""
    caplog.set_level("INFO", "minigpt")

    def logged() -> list[str]:
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return logged


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
