"""`minigpt serve`: answers requests over HTTP."""

import re
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from minigpt.cli.command import ModelArgument, command, model_source
from minigpt.cli.terminal import print_message
from minigpt.config import MAX_NEW_TOKENS
from minigpt.environment import available_cores, install_command
from minigpt.errors import UserError
from minigpt.targets.open_model import is_portable

OPTIONS = {"run": "RUN", "host": "--host", "port": "--port", "name": "--name"}
_PACKAGES = ("h11", "starlette", "uvicorn")


@command(OPTIONS)
def serve(
    run: ModelArgument,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 for all of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8000,
    name: Annotated[
        str | None,
        typer.Option(help="What requests call the model. Default: that of the run or file."),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="MINIGPT_API_KEY", help="Key that all requests must send.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name of the server that requests may give. Repeatable."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Engines, each with its own copy of the weights. Default: "
            "one per core, at most 4.",
        ),
    ] = None,
    slots: Annotated[
        int, typer.Option(min=1, max=256, help="Texts that an engine generates at the same time.")
    ] = 16,
    queue: Annotated[
        int,
        typer.Option(min=0, help="Texts that wait for a slot; further requests get status 429."),
    ] = 128,
    max_prompt_tokens: Annotated[
        int, typer.Option(min=1, max=2**20, help="Maximum number of tokens of a prompt.")
    ] = 4096,
    max_tokens: Annotated[
        int,
        typer.Option(
            min=1, max=MAX_NEW_TOKENS, help="Maximum number of tokens generated for a text."
        ),
    ] = 1024,
) -> None:
    """Answer requests over HTTP with the protocol of OpenAI.

    Ctrl-C or SIGTERM stops the server: it finishes the answers that it has begun, within 20 s.
    """
    if absent := [package for package in _PACKAGES if find_spec(package) is None]:
        raise UserError(f"serve: {', '.join(absent)} not installed: {install_command('serve')}")
    from minigpt.serving.application import ServedPage, Server, build_application
    from minigpt.serving.completions import ServedModel
    from minigpt.serving.scheduler import Scheduler
    from minigpt.serving.server import is_loopback, listen, run_server

    if api_key is not None and not re.fullmatch("[!-~]+", api_key):
        raise UserError("--api-key: should be of printable ASCII characters, at least one")
    listening = listen(host, port)
    # Others cannot reach the server under another name, unless a proxy passes it on.
    hosts = {name.lower() for name in allow_host or ()}
    if is_loopback(listening):
        hosts |= {"localhost", "127.0.0.1", "::1", host.lower()}
    elif api_key is None:
        print_message(f"Anybody who reaches {host} can use the server: it has no --api-key.")
    source = model_source(run, "gpt")
    sampling = source.settings({}, engine_only=True)
    with tempfile.TemporaryDirectory(prefix="minigpt-") as folder:
        file = source.portable_file(Path(folder))
        model = ServedModel(file, name or _name(run), sampling, max_prompt_tokens, max_tokens)
        engines = threads or min(available_cores(), 4)
        scheduler = Scheduler(file, engines, slots, max_prompt_tokens + max_tokens, queue)
        page = ServedPage(file, None if source.is_file else run, Path(folder))
        application = build_application(Server(model, scheduler, page), hosts or None, api_key)
        url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        ready = f"Serving {model.name} at {url}. Press Ctrl-C to stop."
        run_server(application, listening, lambda: print_message(ready))


def _name(run: Path) -> str:
    """Returns the name of a run or file: "default-1" for runs/default-1/model.gguf."""
    path = run.absolute()
    if is_portable(path):
        return path.parent.name if path.name == "model.gguf" else path.stem
    return path.name
