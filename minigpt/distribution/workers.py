"""Training in several processes: what they check before, and how the later ones follow the first."""

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from rich.console import Console

import minigpt
from minigpt.config import Config
from minigpt.corpus.store_files import Corpus
from minigpt.distribution.connection import LOST, check_equal
from minigpt.distribution.replicas import Replicas
from minigpt.errors import UserError
from minigpt.interrupts import Interrupted
from minigpt.runs.run import Run
from minigpt.training.loop import TrainingLoop
from minigpt.training.start import Start
from minigpt.training.tasks.task import Task

# Paths, which may differ between machines. The text and the weights are compared by their contents.
_OWN = {"data.paths", "training.init_from"}


def check_workers(replicas: Replicas | None, start: Start, corpus: Corpus) -> None:
    """Checks that all workers train the same model on the same text with the same version.

    Raises:
      UserError: in every worker, with each difference from the first worker.
    """
    if replicas is None or replicas.workers == 1:
        return
    checkpoint = start.checkpoint
    record: dict[str, Any] = {
        "minigpt": minigpt.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "text": corpus.fingerprint[:12],
        "checkpoint": checkpoint.path.name if checkpoint else None,
    }
    check_equal(replicas, record | _settings(start.config), {"text": "SHA-256 of the tokens"})


def check_weights(replicas: Replicas | None, model: keras.Model) -> None:
    """Checks that all workers begin with the same weights and the same state of the optimizer.

    Raises:
      UserError: in every worker, with those that differ from the first one.
    """
    if replicas is None or replicas.workers == 1:
        return
    digest = hashlib.sha256()
    for variable in (*model.variables, *model.optimizer.variables):
        digest.update(keras.ops.convert_to_numpy(variable).tobytes())
    what = "SHA-256 of the weights"
    check_equal(replicas, {"weights": digest.hexdigest()[:12]}, {"weights": what})


def _settings(config: Config) -> dict[str, Any]:
    return {
        f"{section}.{key}": value
        for section, settings in config.model_dump(mode="json").items()
        for key, value in settings.items()
        if f"{section}.{key}" not in _OWN
    }


def announce_run(replicas: Replicas | None, run: Run, trains: bool) -> None:
    """Tells the other workers the run directory, and whether there is something left to train."""
    if replicas:
        replicas.from_first({"path": str(run.path.absolute()), "trains": trains})


def wait_for_first(replicas: Replicas | None, loop: TrainingLoop) -> None:
    """Waits until the first worker has written everything: if one ended before, TensorFlow would warn."""
    if replicas and loop.ended_together:
        # The first worker has written everything, whether or not the others are still there.
        with suppress(*LOST) if replicas.is_first else nullcontext():
            replicas.from_first(None)


def follow(
    replicas: Replicas,
    start: Start,
    task: Task,
    model: keras.Model,
    callbacks: Sequence[keras.callbacks.Callback],
) -> Run:
    """Trains along with the first worker, and writes nothing.

    Raises:
      UserError: the run directory of the first worker cannot be seen.
      KeyboardInterrupt: after Ctrl-C in any worker.
    """
    announced = replicas.from_first(None)
    path = Path(announced["path"])
    if not path.is_dir():
        raise UserError(
            f"{path}: the run directory of worker 0 does not exist here; should be in a folder that all "
            "workers share"
        )
    run = Run(path)
    if announced["trains"]:
        loop = TrainingLoop(run, task, model, callbacks, Console(quiet=True), replicas)
        loop.restore(start.checkpoint)
        check_weights(replicas, model)
        try:
            loop.fit()
        except KeyboardInterrupt:
            raise Interrupted from None  # The first worker says what was saved.
        finally:
            wait_for_first(replicas, loop)
    return run
