"""The bundled corpus, and the tables of its material."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

import story_generator as corpus

PLOT_SAMPLE = 1500


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """The whole corpus."""
    return list(corpus.stories())


@pytest.fixture(scope="session")
def told() -> list[corpus.Story]:
    """Some stories with their plot, cast and events."""
    return [corpus.tell(index) for index in range(PLOT_SAMPLE)]


@pytest.fixture(scope="session")
def tables() -> dict[str, Any]:
    """The groups of the material."""
    groups: dict[str, Any] = {}
    for name in ("people", "places", "things"):
        path = corpus.material_folder() / f"{name}.toml"
        groups.update(tomllib.loads(path.read_text(encoding="utf-8")))
    return groups
