"""What the tests of faults share: the process that forks, and a training that nothing befalls."""

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
    """Where all chains stand: side by side, so that they train on one file."""
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
