"""Text to a trained model: corpus, model, fit, export."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from minigpt.config import Config, load_config
from minigpt.corpus.fit import fit_to_text
from minigpt.corpus.token_store import open_corpus
from minigpt.interrupts import stop_if_interrupted
from minigpt.models import build_model
from minigpt.notices import notices_to
from minigpt.runs.lock import run_lock
from minigpt.runs.paths import new_run_path, refuse_taken
from minigpt.runs.run import Run
from minigpt.training.console import new_console
from minigpt.training.device import set_up_device
from minigpt.training.fine_tuning import starting_point
from minigpt.training.memory_check import enough_memory
from minigpt.training.session import Session, build_task, compile_model
from minigpt.training.summary import describe


def train(
    config: Config | Mapping[str, Any] | str | Path = "default",
    run: str | Path | None = None,
    *,
    name: str | None = None,
    command: str = "minigpt",
    console: Console | None = None,
) -> Run:
    """Trains a model from text, shows what it writes, and exports the best one.

    Args:
      config: settings; a nested dictionary, a path or a shipped configuration's name will do.
      run: the run directory, new or empty; `runs/NAME-N` if None.
      name: NAME of the default run directory; the configuration's if None.
      command: how the user calls minigpt, for the closing line.
      console: where to print; standard output if None.
    Returns:
      The finished run.
    Raises:
      UserError: if a setting, the text or the directory cannot be used. Nothing is left behind.
        If the loss becomes nan or infinite, what was saved before stays.
      KeyboardInterrupt: after Ctrl-C, with the state saved; `resume` goes on from there.
    """
    name = name or (Path(config).stem if isinstance(config, str | Path) else "run")
    config = fit_to_text(config if isinstance(config, Config) else load_config(config))
    console = console or new_console()
    path = Path(run) if run else new_run_path(name)
    path = path if path.name else path.absolute()
    refuse_taken(path)
    stop_if_interrupted()

    start = starting_point(config)
    config = start.config if start else config
    device = set_up_device(config.training)
    with notices_to(console.print):
        corpus = open_corpus(config.data, config.tokenizer, start.tokenizer if start else None)
    task = build_task(config, corpus)
    vocab_size = corpus.tokenizer.vocab_size
    with enough_memory(task.config, vocab_size):
        if start:
            model = start.build_model()
            console.print(start.describe(model))
        else:
            training = task.config.training
            model = build_model(task.config.model, vocab_size, training.precision)
        compile_model(task, model)
        console.print(describe(task, model, device))

        stop_if_interrupted()
        made = Run.create(path, task.config, corpus.tokenizer, {"fingerprint": corpus.fingerprint})
        with run_lock(made.path):
            console.print(f"Run         {made.path}")
            session = Session(made, task, model, None, console, command)
            with session.failed_writes_told():
                session.fit()
                session.export()
    return made
