"""Writes the best model after training."""

from typing import Any

from minigpt.export import export_saved_model
from minigpt.runs.run import Run, save_model
from minigpt.storage.atomic import atomic_folder
from minigpt.training.tasks.task import Task


def export_best(run: Run, task: Task) -> dict[str, Any]:
    """Writes the best model into the run, for Keras and as a SavedModel.

    Returns:
      Final scores of the model; see `Task.final_scores`.
    Raises:
      OSError: the model cannot be written.
    """
    best = run.load_model()
    with atomic_folder(run.saved_model_folder, replace=True) as folder:
        export_saved_model(best, task.corpus.tokenizer, folder)
    # Last: if this file exists, everything else does.
    save_model(best, run.model_file)
    return task.final_scores(best)


def is_exported(run: Run) -> bool:
    """Returns whether the run holds the exports."""
    return run.model_file.is_file() and run.saved_model_folder.is_dir()
