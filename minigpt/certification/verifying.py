"""verify: compares an export that exists with a run."""

from pathlib import Path
from typing import Any

from minigpt.certification.certificate import certify
from minigpt.certification.readers import format_of
from minigpt.certification.record import record_certificate
from minigpt.runs.run import Run, as_run


def verify(path: str | Path, against: Run | str | Path) -> dict[str, Any]:
    """Checks an exported file or folder, of any format, against the run it was made from.

    The certificate is also recorded in the run directory, and its report shows it.

    Args:
      path: the file or folder.
      against: the run, or its directory.
    Returns:
      A certificate. `certificate["problems"]` is empty if the export is within its tolerance.
    Raises:
      UserError: `path` is no export, or it or the run cannot be read.
    """
    run, path = as_run(against), Path(path)
    certificate = certify(path, run, format_of(path))
    record_certificate(run, path, certificate)
    return certificate
