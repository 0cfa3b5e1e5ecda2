import pytest


@pytest.fixture(autouse=True)
def trainings_of_this_process(without_xla) -> None:
    """The runs of the session fixtures, and those in other processes, use XLA."""
