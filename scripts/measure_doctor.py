"""Follows the advice of the doctor on small runs, and prints the held-out loss before and after.

    python scripts/measure_doctor.py shakespeare.txt [VERDICT...]

The text is that of configs/shakespeare_character.toml. docs/doctor.md has the results. A run takes seconds
on two cores that are free.
"""

import argparse
import json
import logging
import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

import minigpt
from minigpt.training import pipeline

Settings = dict[str, Any]
# Of every run, unless a case says otherwise.
COMMON: Settings = {
    "tokenizer.kind": "character",
    **{"model.max_len": 64, "model.embed_dim": 64, "model.num_layers": 2, "model.num_heads": 2},
    **{"model.dropout_rate": 0.0, "training.batch_size": 8, "training.epochs": 10},
    **{"training.steps_per_epoch": 20, "training.max_minutes": "none"},
    **{"training.early_stopping_patience": "none", "training.keep_snapshots": False},
    "sampling.prompts": [],
}
LONG = {"training.steps_per_epoch": 40}
SLOW = {"training.learning_rate": 1e-7}
RISING = {
    **{
        "training.optimizer": "adamw",
        "training.clip_norm": "none",
        "training.schedule": "constant",
    },
    **{"training.warmup_steps": 60, "training.learning_rate": 3.0},
}
SMALL = {"training.steps_per_epoch": 200, "model.embed_dim": 16, "model.num_layers": 1}
DROPPED = {"training.steps_per_epoch": 80, "model.dropout_rate": 0.2}


@dataclass(frozen=True)
class Case:
    """A run that gets a verdict, and what its advice changes.

    Attributes:
      verdict: its id.
      text: a key of `texts`.
      before, after: settings of both runs, and those that the advice adds. "text" in `after` is another
        text.
      resumes: whether the advice continues the run.
    """

    verdict: str
    text: str
    before: Settings
    after: Settings
    resumes: bool = False


CASES = [
    Case("diverging", "play", RISING, {"training.learning_rate": 4e-3}),
    Case("not_learning", "play", SLOW, {"training.learning_rate": 1e-3}),
    Case("not_learning", "play", SLOW, {"training.learning_rate": 1e-2}),
    Case("unlike", "code at the end", {}, {"data.document_separator": "\n\n"}),
    Case("too_short", "play", {"training.steps_per_epoch": 6}, {"training.epochs": 20}, True),
    Case("below_ngram", "play", {}, {"training.epochs": 20}, True),
    Case("overfitted", "short", LONG, {"model.dropout_rate": 0.2}),
    Case("overfitted", "short", LONG, {"training.epochs": 4}),
    Case("overfitted", "short", LONG, {"model.embed_dim": 32}),
    Case("overfitted", "short", LONG, {"text": "play"}),
    Case("overfitted", "short", DROPPED, {"model.dropout_rate": 0.4}),
    Case("overfitted", "short", DROPPED, {"training.epochs": 4}),
    Case("too_small", "long", SMALL, {"model.embed_dim": 96}),
    Case("suspicious_text", "repeated line", {}, {"text": "play"}),
    Case("suspicious_text", "HTML", {}, {"text": "play"}),
    Case("suspicious_text", "copies", {}, {"text": "third"}),
]


def texts(play: str) -> dict[str, str]:
    """Returns the training texts by name."""
    draw, lines = random.Random(0), play[:60_000].split("\n")
    code = Path(argparse.__file__).read_text(encoding="utf-8")
    speeches = play[:20_000].split("\n\n")
    return {
        "play": play[:60_000],
        "short": play[:8_000],
        "long": play[:300_000],
        "third": play[:20_000],
        "copies": "\n\n".join(draw.sample(3 * speeches, 3 * len(speeches))),
        "code at the end": play[:60_000] + "\n\n" + code[:6_700],
        "repeated line": "\n".join(
            line + "\nThe complete works, printed for the players" * (number % 2)
            for number, line in enumerate(lines)
        ),
        "HTML": "\n".join(f'<p class="line"><b>{line}</b>&nbsp;</p>' for line in lines),
    }


def sections(settings: Settings) -> dict[str, Settings]:
    found: dict[str, Settings] = {}
    for name, value in settings.items():
        section, key = name.split(".")
        found.setdefault(section, {})[key] = value
    return found


class Runs:
    """Trains the runs in a folder, each one once. They are not exported."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trained: dict[str, minigpt.Run] = {}

    def train(self, text: Path, settings: Settings, resumed: Any = None, **changes: Any) -> Any:
        name = repr((text, settings, changes))
        path, console = self._folder / f"run-{len(self._trained)}", Console(quiet=True)
        if name in self._trained:
            return self._trained[name]
        if resumed:
            shutil.copytree(resumed.path, path)
            sets = [f"{key}={value}" for key, value in changes.items()]
            run = pipeline.train(resume_from=path, overrides=sets, console=console)
        else:
            data = {"data.source": "files", "data.paths": [str(text)], "data.val_fraction": 0.1}
            config = sections({**data, **COMMON, **settings, **changes})
            run = pipeline.train(config, path, base="none", console=console)
        self._trained[name] = run
        return run


def best_loss(run: Any) -> float:
    lines = run.metrics_file.read_text(encoding="utf-8").splitlines()
    return min(json.loads(line)["val_loss"] for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("verdicts", nargs="*")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    play = given.text.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, text in texts(play).items():
            (folder / title).write_text(text, encoding="utf-8")
        # If the advice changes the text, the models are compared on a part of the play that none has read.
        (folder / "other").write_text(play[300_000:320_000], encoding="utf-8")
        runs = Runs(folder)
        for case in CASES:
            if given.verdicts and case.verdict not in given.verdicts:
                continue
            after = dict(case.after)
            text = after.pop("text", case.text)
            run = runs.train(folder / case.text, case.before)
            found = [verdict.id for verdict in minigpt.examine(run)]
            other = runs.train(folder / text, case.before, run if case.resumes else None, **after)
            compared = None if text == case.text else [str(folder / "other")]
            losses = [
                minigpt.evaluate_run(each, compared).loss if compared else best_loss(each)
                for each in (run, other)
            ]
            shown = (case.text, case.before, case.after, *(f"{loss:.3f}" for loss in losses))
            print(case.verdict, found, *shown, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
