"""Functions for forked processes; each writes one kind of file."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.app import export_run
from minigpt.corpus.token_store import open_corpus
from minigpt.runs.checkpoints import (
    ClockState,
    TrainingProgress,
    remove_checkpoints,
    write_checkpoint,
)
from minigpt.runs.layout import checkpoint_name
from minigpt.runs.run import Run
from tests.settings import data_config, tokenizer_config

PROGRESS = TrainingProgress(
    step=0,
    epoch=0,
    batch=0,
    clock=ClockState(),
    given_plan=[],
    plan=[],
    best=None,
    epochs_since_best=0,
    config={},
)


def token_store(job: dict[str, Any]) -> None:
    open_corpus(
        data_config(source="files", paths=[job["text"]]),
        tokenizer_config(kind="byte_pair", vocab_size=300),
    )


def a_download(job: dict[str, Any]) -> None:
    """Downloads a text and writes its token store."""
    text = Path(job["text"])
    sha256 = hashlib.sha256(text.read_bytes()).hexdigest()
    open_corpus(
        data_config(source="shakespeare", url=text.as_uri(), sha256=sha256),
        tokenizer_config(kind="character", vocab_size=100),
    )


def checkpoints(job: dict[str, Any]) -> None:
    """Writes two checkpoints and removes the first one."""
    folder = Path("cache/checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    for step in (1, 2):
        arrays = {"weights/00000": np.full([70_000], step, "float32")}
        write_checkpoint(folder, checkpoint_name(step), arrays, PROGRESS)
    remove_checkpoints(folder, keep={checkpoint_name(2)})


def an_export(job: dict[str, Any]) -> None:
    export_run(Run(job["run"]), job["format"], Path("cache/exported"))
