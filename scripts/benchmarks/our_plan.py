"""Compares the forecast of `minigpt train --plan` with what the training then takes."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measuring import Context, Outcome

# How the user would call them. {shakespeare}, {reviews}, {short} and {pairs} are files.
SYSTEMS = {
    "default": ["--set", "training.max_minutes=2"],
    "text": ["--text", "{shakespeare}", "--set", "training.max_minutes=1"],
    "characters": [
        *("--config", "shakespeare_character", "--text", "{shakespeare}"),
        *("--set", "training.steps_per_epoch=60"),
    ],
    "words": [
        *("--config", "imdb_keras_example", "--text", "{reviews}"),
        *("--set", "training.epochs=3", "--set", "training.steps_per_epoch=6"),
    ],
    "pairs": [
        *("--config", "translate_eng_deu", "--text", "{pairs}"),
        *("--set", "training.max_minutes=2"),
    ],
    "short": ["--text", "{short}", "--set", "training.max_minutes=1"],
}
SHORT_BYTES = 20_000


def compare(context: Context, system: str, **paths: str | None) -> Outcome:
    """Runs the forecast, then the training, each in a process of its own.

    Args:
      system: a key of `SYSTEMS`.
      **paths: the files `shakespeare`, `imdb` and `pairs`; None if there is none.
    Returns:
      "value": the largest error of the three estimates, in percent of what was measured; "forecast" and
      "measured" with the estimates; "load" at the beginning.
    """
    arguments = SYSTEMS[system]
    texts = _texts(context, {key: path for key, path in paths.items() if path})
    if missing := [text for text in _needed(arguments) if text not in texts]:
        return {"skipped": f"needs the text: {', '.join(missing)}"}
    command = [sys.executable, "-m", "minigpt", "train"]
    command += [argument.format(**texts) for argument in arguments]
    load = os.getloadavg()[0]
    with TemporaryDirectory() as folder:
        planned, _, _ = _run([*command, "--plan", "--json"], folder)
        forecast = json.loads(planned)
        _, seconds, memory = _run([*command, "--run", "run"], folder)
        run = Path(folder) / "run"
        epochs = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    measured = {
        "first_epoch_seconds": epochs[0]["seconds"],
        "total_seconds": seconds,
        "memory_bytes": memory,
        "loss": min(epoch["val_loss"] for epoch in epochs),
    }
    names = ("first_epoch_seconds", "total_seconds", "memory_bytes")
    errors = {name: 100 * (forecast[name] / measured[name] - 1) for name in names}
    return {
        "value": max(map(abs, errors.values())),
        "forecast": {name: forecast[name] for name in (*names, "expected_loss", "seconds")},
        "measured": measured | {"epochs": len(epochs), "steps": epochs[-1]["step"]},
        "errors": errors,
        "load": load,
    }


def _run(command: list[str], folder: str) -> tuple[str, float, int]:
    """Runs a command; returns what it printed, its seconds, and its peak memory in bytes."""
    began = time.monotonic()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return printed, time.monotonic() - began, unit * usage.ru_maxrss


def _needed(arguments: list[str]) -> list[str]:
    return [argument[1:-1] for argument in arguments if argument.startswith("{")]


def _texts(context: Context, paths: dict[str, str]) -> dict[str, str]:
    """Returns the files of the systems whose originals are there."""
    texts: dict[str, Any] = {}
    if path := paths.get("shakespeare"):
        texts["shakespeare"] = path
        whole = Path(path).read_bytes()
        texts["short"] = _written(context, whole[300_000 : 300_000 + SHORT_BYTES])
    if path := paths.get("imdb"):
        from benchmarks.quality_texts import write_reviews

        file = context.work / "plan-reviews.txt"
        if not file.exists():
            write_reviews(file, path)
        texts["reviews"] = str(file)
    if path := paths.get("pairs"):
        texts["pairs"] = path
    return texts


def _written(context: Context, text: bytes) -> str:
    file = context.work / f"plan-{hashlib.sha256(text).hexdigest()[:8]}.txt"
    file.write_bytes(text.decode(errors="ignore").encode())
    return str(file)
