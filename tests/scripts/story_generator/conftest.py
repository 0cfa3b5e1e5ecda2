"""The bundled corpus, and the tables of its material."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

import story_generator as corpus


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """The whole corpus."""
    return list(corpus.stories())
