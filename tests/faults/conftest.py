"""Fixtures of the fault tests: the process that forks, and an undisturbed training."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.chain import Chain
from tests.faults.warm import Warm


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    with Warm() as warm:
        yield warm


@pytest.fixture(scope="session")
def faults_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all chains, which train on the same file."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="session")
def undisturbed(warm: Warm, faults_folder: Path) -> Chain:
    chain = Chain(warm, faults_folder / "undisturbed", no_export=True)
    assert chain.go_on().status == 0
    return chain


@pytest.fixture(scope="session")
def undisturbed_with_export(warm: Warm, faults_folder: Path) -> Chain:
    chain = Chain(warm, faults_folder / "exported")
    assert chain.go_on().status == 0
    return chain
