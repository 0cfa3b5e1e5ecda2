"""Certificates: how an exported model compares with the run it was made from."""

import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any

import minigpt
from minigpt.models import GPT, EncoderDecoder, build_model
from minigpt.runs.checkpoints import best_state
from minigpt.runs.run import Run
from minigpt.storage.files import sha256_of
from minigpt.targets.certification.comparison import compare
from minigpt.targets.certification.exported import ExportedModel
from minigpt.targets.certification.material import pair_material, text_material
from minigpt.targets.certification.readers.text_model import OpenedModel
from minigpt.targets.certification.tolerances import problems_of
from minigpt.targets.targets import target_named
from minigpt.tokenizers import Tokenizer

FORMAT = 1
CERTIFICATE_FILE = "certificate.json"


def certify(
    path: Path,
    run: Run,
    format: str,
    source: tuple[GPT | EncoderDecoder, Tokenizer] | None = None,
    export: ExportedModel | None = None,
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
    target = target_named(format)
    checkpoint = best_state(run.checkpoints_folder)
    model, tokenizer = source or (run.load_model(), run.load_tokenizer())
    material_of = text_material if isinstance(model, GPT) else pair_material
    material = material_of(run, tokenizer, model.max_len)
    if not target.keeps_precision and model.compute_dtype != "float32":
        copy = build_model(model.config, model.vocab_size, "float32")
        copy.set_weights(model.get_weights())
        model = copy
    export = export or target.open(path)
    measured = compare(OpenedModel(model, tokenizer), export, material, model.max_len)
    files = _files(path)
    return {
        "certificate": FORMAT,
        "format": format,
        "weights": export.weights,
        "problems": problems_of(measured, target.tolerance(export.weights)),
        **measured,
        "bytes": sum(file.stat().st_size for file in files.values()),
        "parameters": model.count_params(),
        "sha256": {name: sha256_of(file) for name, file in files.items()},
        "checkpoint": checkpoint,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {
            "minigpt": minigpt.__version__,
            "python": platform.python_version(),
            **export.versions(),
        },
    }


def certificate_path(export: Path) -> Path:
    """Returns where the certificate of an export is: inside a folder, beside a file."""
    if export.is_dir():  # A file may not exist yet.
        return export / CERTIFICATE_FILE
    return export.with_name(f"{export.name}.{CERTIFICATE_FILE}")


def certificate_bytes(certificate: dict[str, Any]) -> bytes:
    """Returns the content of the file."""
    return (json.dumps(certificate, indent=1) + "\n").encode()


def _files(path: Path) -> dict[str, Path]:
    """Returns the files of an export by name, without its certificate."""
    if path.is_file():
        return {path.name: path}
    names = {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*"))}
    return {
        name: file for name, file in names.items() if file.is_file() and name != CERTIFICATE_FILE
    }
