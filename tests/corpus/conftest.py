"""Fixtures of the corpus tests."""

from collections.abc import Callable

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
