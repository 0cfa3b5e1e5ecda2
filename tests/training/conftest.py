import pytest


@pytest.fixture(autouse=True)
def samples_while_training(decoding_without_xla) -> None:
    """The trainings of the session fixtures, and those in other processes, have XLA."""
