"""export_run: writes a run's best model in one of the formats, and checks what it wrote."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.notices import deprecated_report
from minigpt.runs.run import Run, as_run
from minigpt.storage.atomic import replace_file
from minigpt.targets.certification.certificate import certificate_bytes, certificate_path, certify
from minigpt.targets.certification.record import record_certificate
from minigpt.targets.formats import FORMATS, writer_of
from minigpt.targets.output import output_file, output_folder
from minigpt.targets.source import ExportSource


def export_run(
    run: Run | str | Path,
    format: str,
    output: str | Path | None = None,
    report: Callable[[str], object] | None = None,
    *,
    weights: str = "float32",
    certificate: bool = False,
    folder: str | Path | None = None,
) -> dict[str, Any] | None:
    """Writes a run's best model for other programs.

    Damaged checkpoints, and the one that is used instead, are logged as warnings.

    Args:
      run: a run, or its directory.
      format: one of `FORMATS`.
      output: for "saved_model", "huggingface", "onnx" and "transformers_js", a new or empty folder; for
        the others, a new file.
      report: deprecated; called with every message that is logged.
      weights: how matrices are stored: "float32"; for "gguf", "html", "litert", "onnx" and
        "transformers_js" also "float16" or "int8".
      certificate: whether to compare what was written with the run. The certificate is written too:
        `certificate.json` in a folder, `NAME.certificate.json` beside a file. It is also recorded in the
        run directory, and the report of the run shows it.
      folder: the name of `output` in earlier versions.
    Returns:
      The certificate; None without one.
    Raises:
      UserError: the run has no model, the format does not support the model or needs a package that is not
        installed, the output exists or cannot be written, or the certificate is outside the tolerance of
        the format. Nothing is written.
      ValueError: the format or the kind of weights is unknown, or the format has no other weights.
    """
    if not isinstance(format, str) or format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}. Received: {format!r}")
    described = FORMATS[format]
    if not isinstance(weights, str) or weights not in described.weights:
        kinds = ", ".join(described.weights)
        raise ValueError(f"`weights` must be one of {kinds} for {format!r}. Received: {weights!r}")
    output = folder if output is None else output
    if output is None:
        raise TypeError("export_run() is missing the argument `output`")
    write, source, output = writer_of(format), ExportSource(as_run(run)), as_path("output", output)
    new = output_folder if described.is_folder else output_file
    with deprecated_report(report), new(output) as unfinished:
        write(source, unfinished, weights)
        if not certificate:
            return None
        found = certify(unfinished, source.run, format, (source.model, source.tokenizer))
        if found["problems"]:
            raise UserError(
                *(ArgumentProblem("format", format, problem) for problem in found["problems"])
            )
        place = unfinished if described.is_folder else output
        replace_file(certificate_path(place), certificate_bytes(found))
    record_certificate(source.run, output, found)
    return found
