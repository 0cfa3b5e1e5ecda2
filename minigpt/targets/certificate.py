"""Certificates: how an exported model compares with the run it was made from.

An export is opened as its users open it, and compared with the best model of the run on text that the run
has not been trained on. docs/certificates.md describes the comparison and its limits.
"""

import datetime
import hashlib
import importlib.metadata
import json
import math
import os
import platform
from pathlib import Path
from typing import Any

import minigpt
from minigpt.environment import hide_tensorflow_log, install_command
from minigpt.errors import ArgumentProblem, UserError
from minigpt.models import GPT
from minigpt.notices import LOGGER
from minigpt.runs.checkpoints import best_state
from minigpt.runs.run import Run
from minigpt.storage.atomic import replace_file
from minigpt.storage.files import sha256_of
from minigpt.targets.comparison import compare, pair_material, text_material
from minigpt.targets.opened_keras import in_float32, opened_keras
from minigpt.targets.targets import (
    TOLERANCES,
    ExportSource,
    Opened,
    Target,
    Tolerance,
    target_of,
)

FORMAT = 1
CERTIFICATE_FILE = "certificate.json"
# The share of greedy answers that may not be those of the run: rounding decides between tokens that are
# almost equally probable.
_DIFFERENT_ANSWERS = 0.1
_MOST_CHARACTERS = 200


def verify_export(path: Path, run: Run) -> dict[str, Any]:
    """Verifies an export as `minigpt.verify`, without writing the report of the run."""
    target = target_of(path)
    try:
        with hide_tensorflow_log():
            export = target.open(path)
    except (UserError, MemoryError):
        raise
    except ModuleNotFoundError as error:
        problem = f"{error.name} is not installed: {install_command(target.name)}"
        raise UserError(ArgumentProblem("path", path, problem)) from None
    except Exception as error:  # Each library raises its own exceptions for a damaged file.
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        problem = f"cannot be read as {target.name}: {reason[:_MOST_CHARACTERS]}"
        raise UserError(ArgumentProblem("path", path, problem)) from None
    certificate = certify(path, ExportSource(run), target, export)
    record_certificate(run, path, certificate)
    return certificate


def certify(
    path: Path, source: ExportSource, target: Target, export: Opened | None = None
) -> dict[str, Any]:
    """Compares an exported file or folder with the best model of a run.

    Args:
      path: the file or folder.
      source: the run.
      target: its format.
      export: the exported model, if it is open already.
    Returns:
      The certificate, JSON values; see docs/certificates.md. "problems" lists what is outside the
      tolerance.
    Raises:
      UserError: the run cannot be read, or its model has other sizes than the export.
    """
    run, model, tokenizer = source.run, source.model, source.tokenizer
    material_of = text_material if isinstance(model, GPT) else pair_material
    material = material_of(run, tokenizer, model.max_len)
    if not target.keeps_precision:
        model = in_float32(model)
    with hide_tensorflow_log():
        export = export or target.open(path)
        measured = compare(opened_keras(model, tokenizer), export, material)
    problems = problems_of(measured, TOLERANCES[export.weights])
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


def problems_of(measured: dict[str, Any], tolerance: Tolerance) -> list[str]:
    """Returns the measurements that are outside the tolerance, one line each.

    Args:
      measured: what `compare` returns.
      tolerance: the limits.
    """
    found = []
    logits, bits, greedy = measured["logits"], measured["bits_per_byte"], measured["greedy"]
    share = tolerance.logits
    largest = max(1.0, logits["largest_of_source"]) if logits else 1.0
    limit = math.inf if share is None else share * largest
    gap_limit = 2 * limit if logits or tolerance.gap is None else tolerance.gap
    if answers := measured.get("answers") if share else None:
        different = answers["questions"] - answers["same"]
        if different > max(1, _DIFFERENT_ANSWERS * answers["questions"]):
            found.append(f"{different} of {answers['questions']} answers are not those of the run")
    if logits and logits["largest_difference"] is None:
        found.append("logits are nan or infinite")
    elif logits and logits["largest_difference"] > limit:
        largest = logits["largest_difference"]
        found.append(f"logits differ by up to {largest:.3g}; should be at most {limit:.3g}")
    if greedy["second_largest_gap"] is None or greedy["second_largest_gap"] > gap_limit:
        same = f"{greedy['same_texts']} of {greedy['prompts']}"
        found.append(
            f"only {same} greedy continuations are the same, and the others are less probable"
        )
    if bits and (bits["relative_difference"] or 0.0) > tolerance.bits_per_byte:
        found.append(
            f"{bits['export']:.4f} bits per byte in place of {bits['source']:.4f}; should differ by at "
            f"most {tolerance.bits_per_byte:.2%}"
        )
    if different := measured["tokenizer"]["lines"] - measured["tokenizer"]["same"]:
        found.append(f"{different} of {measured['tokenizer']['lines']} lines have other tokens")
    return found


def record_certificate(run: Run, export: Path, certificate: dict[str, Any]) -> None:
    """Writes a certificate into the run directory, for its report.

    The name of the export is recorded, its folder is not. An earlier certificate of an export with the same
    name, format and kind of weights is replaced. A directory that cannot be written to is a warning.
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
