"""Certificates: how an exported model compares with the run it was made from.

An export is opened as its users open it, and compared with the best model of the run on text that the run
has not been trained on. docs/certificates.md describes the comparison and its limits.
"""

import datetime
import hashlib
import json
import logging
import math
import os
import platform
from pathlib import Path
from typing import Any

import minigpt
from minigpt.environment import hide_tensorflow_log, install_command
from minigpt.errors import ArgumentProblem, UserError
from minigpt.models import GPT, EncoderDecoder
from minigpt.runs.checkpoints import best_state
from minigpt.runs.run import Run
from minigpt.storage.atomic import replace_file
from minigpt.storage.files import sha256_of
from minigpt.targets.comparison import compare
from minigpt.targets.material import pair_material, text_material
from minigpt.targets.opened_model import in_float32, opened_model
from minigpt.targets.targets import Opened, Target, Tolerance, target_named, target_of
from minigpt.tokenizers import Tokenizer

FORMAT = 1
CERTIFICATE_FILE = "certificate.json"
# The share of greedy answers that may not be those of the run: rounding decides between tokens that are
# almost equally probable.
_DIFFERENT_ANSWERS = 0.1
_MOST_CHARACTERS = 200
logger = logging.getLogger(__name__)


def verify_export(path: Path, run: Run) -> dict[str, Any]:
    """Verifies an export as `minigpt.verify`, without writing the report of the run."""
    target = target_of(path)
    certificate = certify(path, run, target.name, export=_opened(path, target))
    record_certificate(run, path, certificate)
    return certificate


def certify(
    path: Path,
    run: Run,
    format: str,
    source: tuple[GPT | EncoderDecoder, Tokenizer] | None = None,
    export: Opened | None = None,
) -> dict[str, Any]:
    """Compares an exported file or folder with the best model of a run.

    Args:
      path: the file or folder.
      run: the run.
      format: its format.
      source: the best model and its tokenizer, if they are loaded already.
      export: the exported model, if it is open already.
    Returns:
      The certificate, JSON values; see docs/certificates.md. "problems" lists what is outside the
      tolerance.
    Raises:
      UserError: the run cannot be read, or its model has other sizes than the export.
    """
    target, checkpoint = target_named(format), best_state(run.checkpoints_folder)
    model, tokenizer = source or (run.load_model(), run.load_tokenizer())
    material_of = text_material if isinstance(model, GPT) else pair_material
    material = material_of(run, tokenizer, model.max_len)
    if not target.keeps_precision:
        model = in_float32(model)
    with hide_tensorflow_log():
        export = export or target.open(path)
        measured = compare(opened_model(model, tokenizer), export, material)
    problems = problems_of(measured, target.tolerance(export.weights))
    if export.learned_steps:
        # The cause of the others.
        count = f"{export.learned_steps} step{'s' * (export.learned_steps > 1)}"
        problems = [f"its weights were changed after the export, by {count} of learning"]
    names = {path.name: path}
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        names = {file.relative_to(path).as_posix(): file for file in files}
        names.pop(CERTIFICATE_FILE, None)
    return {
        "certificate": FORMAT,
        "format": format,
        "weights": export.weights,
        "problems": problems,
        **measured,
        "bytes": sum(file.stat().st_size for file in names.values()),
        "parameters": model.count_params(),
        "sha256": {name: sha256_of(file) for name, file in names.items()},
        "checkpoint": checkpoint,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {
            "minigpt": minigpt.__version__,
            "python": platform.python_version(),
            **export.versions(),
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
    answers, tokens = measured.get("answers", {"questions": 0, "same": 0}), measured["tokenizer"]
    different = answers["questions"] - answers["same"]
    if tolerance.logits and different > max(1, _DIFFERENT_ANSWERS * answers["questions"]):
        found.append(
            f"{different} of {answers['questions']} greedy answers are not those of the run"
        )
    limit = math.inf
    if tolerance.logits is not None:
        limit = tolerance.logits * max(1.0, logits["largest_of_source"] if logits else 1.0)
    if logits and logits["largest_difference"] is None:
        found.append("logits are nan or infinite")
    elif logits and logits["largest_difference"] > limit:
        found.append(
            f"logits differ by up to {logits['largest_difference']:.3g}; should be at most {limit:.3g}"
        )
    gap = greedy["second_largest_gap"]
    if gap is None or gap > (2 * limit if logits or tolerance.gap is None else tolerance.gap):
        found.append(
            f"only {greedy['same_texts']} of {greedy['prompts']} greedy continuations are the same, and "
            "the others are less probable"
        )
    if bits and (bits["relative_difference"] or 0.0) > tolerance.bits_per_byte:
        found.append(
            f"{bits['export']:.4f} bits per byte in place of {bits['source']:.4f}; should differ by at "
            f"most {tolerance.bits_per_byte:.2%}"
        )
    if different := tokens["lines"] - tokens["same"]:
        found.append(f"{different} of {tokens['lines']} lines have other tokens")
    return found


def record_certificate(run: Run, export: Path, certificate: dict[str, Any]) -> None:
    """Writes a certificate into the run directory, for its report.

    An earlier certificate of an export with the same name, format and kind of weights is replaced. If the
    directory cannot be written to, a warning is logged.

    Args:
      run: the run.
      export: the file or folder that was compared. Its name is recorded, its folder is not.
      certificate: the certificate.
    """
    name = export.absolute().name
    # A name may have characters that the file system of the run does not.
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]
    file_name = f"{certificate['format']}-{certificate['weights']}-{digest}.json"
    try:
        run.certificates_folder.mkdir(exist_ok=True)
        content = certificate_bytes({"name": name, **certificate})
        replace_file(run.certificates_folder / file_name, content)
    except OSError as error:
        reason = error.strerror or error
        logger.warning("The report of %s will not show this certificate: %s", run.path, reason)


def certificate_path(export: Path) -> Path:
    """Returns the path of the certificate of an export: inside a folder, next to a file."""
    if export.is_dir():  # A file may not exist yet.
        return export / CERTIFICATE_FILE
    return export.with_name(f"{export.name}.{CERTIFICATE_FILE}")


def certificate_bytes(certificate: dict[str, Any]) -> bytes:
    """Returns the content of the file."""
    return (json.dumps(certificate, indent=1) + "\n").encode()


def _opened(path: Path, target: Target) -> Opened:
    """Opens a file or folder that may be damaged. Each library raises its own exceptions for that."""
    try:
        with hide_tensorflow_log():
            return target.open(path)
    except (UserError, MemoryError):
        raise
    except ModuleNotFoundError as error:
        problem = f"{error.name} is not installed: {install_command(target.name)}"
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        problem = f"cannot be read as {target.name}: {reason[:_MOST_CHARACTERS]}"
    raise UserError(ArgumentProblem("path", path, problem))
