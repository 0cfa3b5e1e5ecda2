"""Writes the best model of a run in one of the formats, whole or not at all, and compares it with the run.

A certificate says how an export, opened as its users open it, compares with the run: docs/certificates.md.
Imports TensorFlow only when it writes or compares.
"""

import datetime
import hashlib
import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import minigpt
from minigpt.environment import hide_tensorflow_log, install_command
from minigpt.errors import ArgumentProblem, UserError, write_problem
from minigpt.notices import LOGGER
from minigpt.storage.atomic import atomic_file, atomic_folder, replace_file
from minigpt.storage.files import sha256_of
from minigpt.targets import targets

if TYPE_CHECKING:
    from minigpt.runs.run import Run

FORMAT = 1
CERTIFICATE_FILE = "certificate.json"
# The share of greedy answers that may not be those of the run: rounding decides between tokens that are
# almost equally probable.
_DIFFERENT_ANSWERS = 0.1
_MOST_CHARACTERS = 200


def write_export(
    run: "Run", format: str, output: Path, weights: str, certificate: bool, with_text: bool
) -> dict[str, Any] | None:
    """Exports a run as `minigpt.export_run`, without writing the report of the run."""
    if format not in targets.TARGETS:
        raise ValueError(
            f"`format` must be one of {', '.join(targets.TARGETS)}. Received: {format!r}"
        )
    target = targets.target_named(format)
    if weights not in target.weights:
        kinds = ", ".join(target.weights)
        raise ValueError(f"`weights` must be one of {kinds} for {format!r}. Received: {weights!r}")
    if with_text and not target.holds_text:
        reason = "cannot contain the training text; should be html"
        raise UserError(ArgumentProblem("format", format, reason))
    target.check_packages()
    source = targets.ExportSource(run, with_text)
    check_output(output, target.is_folder)
    if problem := target.problem(run.config.model, source.tokenizer):
        raise UserError(ArgumentProblem("format", format, problem))
    for ignored in target.ignored_settings(run.config.sampling):
        LOGGER.warning("%s: %s", output, ignored)
    with new_output(output, target.is_folder) as unfinished:
        target.write(source, unfinished, weights)
        if not certificate:
            return None
        found = certify(unfinished, source, target)
        if found["problems"]:
            raise UserError(*(ArgumentProblem("format", format, p) for p in found["problems"]))
        place = unfinished if target.is_folder else output
        write_certificate(certificate_path(place), found)
    record_certificate(run, output, found)
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


def verify_export(path: Path, run: "Run") -> dict[str, Any]:
    """Verifies an export as `minigpt.verify`, without writing the report of the run."""
    target = targets.target_of(path)
    try:
        with hide_tensorflow_log():
            export = target.open(path)
    except (UserError, MemoryError):
        raise
    except Exception as error:  # Each library raises its own exceptions for a damaged file.
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        problem = f"cannot be read as {target.name}: {reason[:_MOST_CHARACTERS]}"
        if isinstance(error, ModuleNotFoundError):
            problem = f"{error.name} is not installed: {install_command(target.name)}"
        raise UserError(ArgumentProblem("path", path, problem)) from None
    certificate = certify(path, targets.ExportSource(run), target, export)
    record_certificate(run, path, certificate)
    return certificate


def certify(
    path: Path,
    source: targets.ExportSource,
    target: targets.Target,
    export: targets.Opened | None = None,
) -> dict[str, Any]:
    """Compares an exported file or folder with the best model of a run; `export`, if it is open already.

    Returns:
      The certificate, JSON values; see docs/certificates.md. "problems" lists what is outside the
      tolerance.
    Raises:
      UserError: the run cannot be read, or its model has other sizes than the export.
    """
    # They need what the commands that only run portable files do not have.
    from minigpt.runs.checkpoints import best_state
    from minigpt.targets.comparison import compare, pair_material, text_material
    from minigpt.targets.opened_keras import in_float32, opened_keras

    run, model, tokenizer = source.run, source.model, source.tokenizer
    material_of = text_material if model.config.kind == "gpt" else pair_material
    material = material_of(run, tokenizer, model.max_len)
    if not target.keeps_precision:
        model = in_float32(model)
    with hide_tensorflow_log():
        export = export or target.open(path)
        measured = compare(opened_keras(model, tokenizer), export, material)
    problems = problems_of(measured, targets.TOLERANCES[export.weights])
    if export.learned_steps:
        # The cause of the others.
        problems = [f"its weights were changed by learning, in {export.learned_steps} steps"]
    names = {path.name: path}
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        names = {file.relative_to(path).as_posix(): file for file in files}
        names.pop(CERTIFICATE_FILE, None)
    return {
        "certificate": FORMAT,
        "format": target.name,
        "weights": export.weights,
        "problems": problems,
        **measured,
        "bytes": sum(file.stat().st_size for file in names.values()),
        "parameters": model.count_params(),
        "sha256": {name: sha256_of(file) for name, file in names.items()},
        "checkpoint": best_state(run.checkpoints_folder),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {
            "minigpt": minigpt.__version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in export.packages},
        },
    }


def problems_of(measured: dict[str, Any], tolerance: targets.Tolerance) -> list[str]:
    """Returns the measurements of `compare` that are outside the tolerance, one line each."""
    logits, bits, greedy = measured["logits"], measured["bits_per_byte"], measured["greedy"]
    tokenizer, answers = measured["tokenizer"], measured.get("answers")
    limit, gap_limit = math.inf, tolerance.gap
    if tolerance.logits:
        limit = tolerance.logits * max(1.0, logits["largest_of_source"] if logits else 1.0)
    if logits or gap_limit is None:
        gap_limit = 2 * limit
    found = []
    different = answers["questions"] - answers["same"] if answers and tolerance.logits else 0
    if answers and different > max(1, _DIFFERENT_ANSWERS * answers["questions"]):
        found.append(f"{different} of {answers['questions']} answers are not those of the run")
    if logits and (largest := logits["largest_difference"]) is None:
        found.append("logits are nan or infinite")
    elif logits and largest > limit:
        found.append(f"logits differ by up to {largest:.3g}; should be at most {limit:.3g}")
    if (gap := greedy["second_largest_gap"]) is None or gap > gap_limit:
        same = (
            f"only {greedy['same_texts']} of {greedy['prompts']} greedy continuations are the same"
        )
        found.append(f"{same}, and the others are less probable")
    if bits and (bits["relative_difference"] or 0.0) > tolerance.bits_per_byte:
        both = f"{bits['export']:.4f} bits per byte in place of {bits['source']:.4f}"
        found.append(f"{both}; should differ by at most {tolerance.bits_per_byte:.2%}")
    if different := tokenizer["lines"] - tokenizer["same"]:
        found.append(f"{different} of {tokenizer['lines']} lines have other tokens")
    return found


def record_certificate(run: "Run", export: Path, certificate: dict[str, Any]) -> None:
    """Writes a certificate into the run directory, for its report.

    The name of the export is recorded, its folder is not. An earlier certificate with the same name, format
    and kind of weights is replaced. A directory that cannot be written to is a warning.
    """
    name = export.absolute().name
    # A name may have characters that the file system of the run does not.
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]
    file_name = f"{certificate['format']}-{certificate['weights']}-{digest}.json"
    try:
        run.certificates_folder.mkdir(exist_ok=True)
        write_certificate(run.certificates_folder / file_name, {"name": name, **certificate})
    except OSError as error:
        reason = error.strerror or error
        LOGGER.warning("The report of %s will not show this certificate: %s", run.path, reason)


def certificate_path(export: Path) -> Path:
    """Returns the path of the certificate of an export: inside a folder, next to a file."""
    if export.is_dir():  # A file may not exist yet.
        return export / CERTIFICATE_FILE
    return export.with_name(f"{export.name}.{CERTIFICATE_FILE}")


def write_certificate(path: Path, certificate: dict[str, Any]) -> None:
    replace_file(path, (json.dumps(certificate, indent=1) + "\n").encode())
