"""Export: writes a trained model for other programs; one format per file."""

from collections.abc import Callable
from pathlib import Path

from minigpt.export.huggingface import export_huggingface
from minigpt.export.keras_file import export_keras
from minigpt.export.saved_model import export_saved_model
from minigpt.notices import deprecated_report
from minigpt.runs.run import Run, as_run

FORMATS = {
    "saved_model": export_saved_model,
    "keras": export_keras,
    "huggingface": export_huggingface,
}


def export_run(
    run: Run | str | Path,
    format: str,
    output: str | Path | None = None,
    report: Callable[[str], object] | None = None,
    *,
    folder: str | Path | None = None,
) -> None:
    """Writes a run's best model to a new folder.

    Damaged checkpoints, and the one that is used instead, are logged as warnings.

    Args:
      run: a run, or its directory.
      format: one of `FORMATS`.
      output: the folder, new or empty.
      report: deprecated; called with every message that is logged.
      folder: the name of `output` in earlier versions.
    Raises:
      UserError: the run has no model, the format does not support the model, or the folder is not empty
        or cannot be written.
      ValueError: the format is unknown.
    """
    if format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}. Received: {format!r}")
    output = folder if output is None else output
    if output is None:
        raise TypeError("export_run() is missing the argument `output`")
    run = as_run(run)
    with deprecated_report(report):
        model, tokenizer = run.load_model(), run.load_tokenizer()
    FORMATS[format](model, tokenizer, Path(output))
