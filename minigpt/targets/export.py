"""Writes a run's best model in one of the formats, whole or not at all, and checks it.

Imports TensorFlow only when it writes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minigpt.errors import ArgumentProblem, UserError, write_problem
from minigpt.notices import LOGGER
from minigpt.storage.atomic import atomic_file, atomic_folder
from minigpt.targets.targets import TARGETS, ExportSource, target_named

if TYPE_CHECKING:
    from minigpt.runs.run import Run


def write_export(
    run: "Run", format: str, output: Path, weights: str, certificate: bool, with_text: bool
) -> dict[str, Any] | None:
    """Exports a run as `minigpt.export_run`, without writing the report of the run."""
    if format not in TARGETS:
        raise ValueError(f"`format` must be one of {', '.join(TARGETS)}. Received: {format!r}")
    target = target_named(format)
    if weights not in target.weights:
        kinds = ", ".join(target.weights)
        raise ValueError(f"`weights` must be one of {kinds} for {format!r}. Received: {weights!r}")
    if with_text and not target.holds_text:
        problem = "cannot contain the training text; should be html"
        raise UserError(ArgumentProblem("format", format, problem))
    target.check_packages()
    source = ExportSource(run, with_text)
    check_output(output, target.is_folder)
    if problem := target.problem(run.config.model, source.tokenizer):
        raise UserError(ArgumentProblem("format", format, problem))
    for ignored in target.ignored_settings(run.config.sampling):
        LOGGER.warning("%s: %s", output, ignored)
    with new_output(output, target.is_folder) as unfinished:
        target.write(source, unfinished, weights)
        if not certificate:
            return None
        # It imports TensorFlow.
        from minigpt.targets import certificate as certificates

        found = certificates.certify(unfinished, source, target)
        if found["problems"]:
            raise UserError(*(ArgumentProblem("format", format, p) for p in found["problems"]))
        place = unfinished if target.is_folder else output
        certificates.write_certificate(certificates.certificate_path(place), found)
    certificates.record_certificate(run, output, found)
    return found


def check_output(output: Path, is_folder: bool) -> None:
    """Raises a `UserError` if an export would replace something: only an empty folder may be there."""
    if not output.exists() or (is_folder and output.is_dir() and not any(output.iterdir())):
        return
    problem = f"exists; should be a new {'or empty directory' if is_folder else 'file'}"
    raise UserError(ArgumentProblem("output", output, problem))


@contextmanager
def new_output(output: Path, is_folder: bool) -> Iterator[Path]:
    """Yields an empty folder, or the path of a file, that becomes `output` if no exception is raised."""
    write: Any = atomic_folder if is_folder else atomic_file
    try:
        check_output(output, is_folder)
        output.parent.mkdir(parents=True, exist_ok=True)
        with write(output) as unfinished:
            yield unfinished
    except Exception as error:
        # TensorFlow raises its own exceptions for files.
        if not (isinstance(error, OSError) or type(error).__module__.startswith("tensorflow")):
            raise
        problem = f"cannot be written: {write_problem(error)}"
        raise UserError(ArgumentProblem("output", output, problem)) from None
