"""Export of a run's best model as a portable file."""

from pathlib import Path

from minigpt.errors import ArgumentProblem, UserError
from minigpt.portable.run_file import write_run_file
from minigpt.portable.writing import WeightsType
from minigpt.runs.run import Run


def export_portable(run: Run, output: Path, weights: WeightsType = "float32") -> None:
    """Writes the file `output`, whole or not at all; creates its parents.

    Args:
      run: the run.
      output: a new file.
      weights: how matrices are stored: "float32", "float16", or "int8" with one scale for 32 numbers.
    Raises:
      UserError: the run has no model, `output` exists, or it cannot be written.
    """
    if output.exists():
        raise UserError(ArgumentProblem("output", output, "exists; should be a new file"))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_run_file(run, output, weights)
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise UserError(ArgumentProblem("output", output, problem)) from None
