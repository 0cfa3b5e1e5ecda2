import pytest
from tensorflow.python.framework.config import disable_op_determinism


@pytest.fixture(autouse=True)
def trainings_of_this_process(without_xla) -> None:
    """The runs of the session fixtures, and those in other processes, use XLA."""


@pytest.fixture
def deterministic():
    """The rest of the tests is not to be slowed down by `training.deterministic`."""
    yield
    disable_op_determinism()
