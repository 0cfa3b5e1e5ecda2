import pytest

import minigpt
from tests.serving.running import Served, serving

for package in ("starlette", "uvicorn", "openai"):
    pytest.importorskip(package, reason="needs the extra serve, and openai")


@pytest.fixture(scope="session")
def server(tiny_run):
    """A server of `tiny_run`."""
    with serving(tiny_run.path, "--threads", "2", "--slots", "3", "--queue", "40") as served:
        yield served


@pytest.fixture(scope="session")
def model(tiny_run) -> minigpt.PortableTextModel:
    """The model that is served."""
    return minigpt.load_portable(tiny_run.path / "model.gguf")


@pytest.fixture
def client(server: Served):
    import openai

    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
