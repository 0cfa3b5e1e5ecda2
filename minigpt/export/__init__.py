"""Export: writes a trained model for other programs; one format per file."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

from minigpt.export.huggingface import export_huggingface
from minigpt.export.keras_file import export_keras
from minigpt.export.saved_model import export_saved_model
from minigpt.notices import deprecated_report
from minigpt.pages.model_page import export_page
from minigpt.portable.exporting import export_portable
from minigpt.portable.writing import WeightsType
from minigpt.runs.run import Run, as_run

FORMATS = {
    "saved_model": export_saved_model,
    "keras": export_keras,
    "huggingface": export_huggingface,
}
# These are made of the run, not of a loaded model.
FILE_FORMATS = {"gguf": export_portable, "html": export_page}


def export_run(
    run: Run | str | Path,
    format: str,
    output: str | Path | None = None,
    report: Callable[[str], object] | None = None,
    *,
    weights: WeightsType = "float32",
    folder: str | Path | None = None,
) -> None:
    """Writes a run's best model for other programs.

    Damaged checkpoints, and the one that is used instead, are logged as warnings.

    Args:
      run: a run, or its directory.
      format: one of `FORMATS` or `FILE_FORMATS`.
      output: a new or empty folder; for "gguf" and "html", a new file.
      report: deprecated; called with every message that is logged.
      weights: for "gguf" and "html", how matrices are stored: "float32", "float16" or "int8".
      folder: the name of `output` in earlier versions.
    Raises:
      UserError: the run has no model, the format does not support the model, or the output exists or cannot
        be written.
      ValueError: the format or the kind of weights is unknown, or the format has no other weights.
    """
    formats = (*FORMATS, *FILE_FORMATS)
    if format not in formats:
        raise ValueError(f"`format` must be one of {', '.join(formats)}. Received: {format!r}")
    kinds = get_args(WeightsType) if format in FILE_FORMATS else ("float32",)
    if weights not in kinds:
        raise ValueError(
            f"`weights` must be one of {', '.join(kinds)} for {format!r}. Received: {weights!r}"
        )
    output = folder if output is None else output
    if output is None:
        raise TypeError("export_run() is missing the argument `output`")
    run = as_run(run)
    if format in FILE_FORMATS:
        with deprecated_report(report):
            FILE_FORMATS[format](run, Path(output), weights)
        return
    with deprecated_report(report):
        model, tokenizer = run.load_model(), run.load_tokenizer()
    FORMATS[format](model, tokenizer, Path(output))
