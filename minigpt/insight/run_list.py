"""The runs in a folder and their state. Reads small files only."""

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from minigpt.config import Config
from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.runs.analysis import State
from minigpt.runs.lock import is_locked
from minigpt.runs.records import number, read_lines
from minigpt.runs.run import Run


@dataclass(frozen=True)
class RunSummary:
    """A run in a list of runs. Everything but `path` and `name` may come from a damaged file: None then.

    Attributes:
      path: the run directory.
      name: its name.
      text: the names of the files it was trained on, or the value of `data.source`; None for an imported
        model.
      parameters: number of weights.
      epochs: number of epochs that have ended.
      val_loss: the best epoch's validation loss, in nats per token.
      bits_per_byte: the same epoch's bits per byte; None if the tokenizer loses part of the text.
      seconds: time of training, until the last epoch ended.
      state: "training": a process trains now. "interrupted": training has not ended, and can be resumed.
        "failed": it ended with an error. "damaged": config.toml cannot be read.
    """

    path: Path
    name: str
    text: str | None = None
    parameters: int | None = None
    epochs: int | None = None
    val_loss: float | None = None
    bits_per_byte: float | None = None
    seconds: float | None = None
    state: State | Literal["damaged"] = "damaged"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"path": str(self.path)}


def list_runs(folder: str | Path = "runs") -> list[RunSummary]:
    """Returns the runs directly in a folder, by name; numbers in names are compared as numbers.

    Args:
      folder: a folder of runs; a run directory gives a list of this run.
    Returns:
      [] if the folder contains no run.
    Raises:
      UserError: the folder does not exist or cannot be read.
    """
    folder = as_path("folder", folder)
    try:
        # The folder of a run that is being created begins with a dot.
        children = (path for path in folder.iterdir() if not path.name.startswith("."))
        found = [folder] if is_run(folder) else [path for path in children if is_run(path)]
    except OSError as error:
        problem = f"{error.strerror}; expected a folder of runs, or a run"
        raise UserError(ArgumentProblem("folder", folder, problem)) from None
    return [_summary(path) for path in sorted(found, key=_natural_order)]


def is_run(path: Path) -> bool:
    return (path / "config.toml").is_file()


def _natural_order(path: Path) -> tuple[list[tuple[int, str]], str]:
    """Sorts "a-2" before "a-10"."""
    # [0-9] and not \d: some characters are digits, but no numbers.
    parts = re.split(r"([0-9]+)", path.name.lower())
    return [(int(p) if i % 2 else 0, p) for i, p in enumerate(parts)], path.name


def _summary(path: Path) -> RunSummary:
    summary = RunSummary(path, path.name if path.name not in ("", "..") else path.resolve().name)
    try:
        run = Run(path)
        config = run.config
    except (UserError, OSError):
        return summary
    lines = read_lines(run.metrics_file)
    records = [line for line in lines if number(line.get("epoch")) is not None]
    scored = [record for record in records if number(record.get("val_loss")) is not None]
    best: dict[str, Any] = min(scored, key=lambda record: record["val_loss"], default={})
    return replace(
        summary,
        text=_text(config) if run.corpus_file.is_file() else None,
        parameters=run.facts.get("parameters"),
        epochs=sum(isinstance(e := record["epoch"], int) and e > 0 for record in records),
        val_loss=number(best.get("val_loss")),
        bits_per_byte=number(best.get("val_bits_per_byte")),
        seconds=number(records[-1].get("seconds")) if records else None,
        state=_state(run),
    )


def _text(config: Config) -> str:
    names = [Path(path).name or path for path in getattr(config.data, "paths", [])]
    if not names:
        return getattr(config.data, "name", config.data.source)
    return ", ".join(names[:2]) + (f" and {len(names) - 2:,} more" if len(names) > 2 else "")


def _state(run: Run) -> State:
    if is_locked(run.path):
        return "training"
    # An imported run has no state. A process that was killed has not written another one.
    known = run.analysis.state or ("finished" if run.model_file.is_file() else "interrupted")
    return "interrupted" if known == "training" else known
