"""The certificates in a run directory, which its report shows."""

import hashlib
import logging
from pathlib import Path
from typing import Any

from minigpt.errors import UserError
from minigpt.pages.report_page import write_report
from minigpt.runs.run import Run
from minigpt.storage.atomic import replace_file
from minigpt.targets.certification.certificate import certificate_bytes

logger = logging.getLogger(__name__)


def record_certificate(run: Run, export: Path, certificate: dict[str, Any]) -> None:
    """Writes a certificate into the run directory, and the report of the run anew if there is one.

    An earlier certificate of an export with the same name, format and kind of weights is replaced. If the
    directory cannot be written to, a warning is logged.

    Args:
      run: the run.
      export: the file or folder that was compared. Its name is recorded, its folder is not.
      certificate: the certificate.
    """
    name = export.absolute().name
    try:
        run.certificates_folder.mkdir(exist_ok=True)
        file = run.certificates_folder / _file_name(name, certificate)
        replace_file(file, certificate_bytes({"name": name, **certificate}))
        if run.report_file.is_file():
            write_report([run], run.report_file)
    except (OSError, UserError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        logger.warning("The report of %s will not show this certificate: %s", run.path, reason)


def _file_name(name: str, certificate: dict[str, Any]) -> str:
    # A name may have characters that the file system of the run does not.
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{certificate['format']}-{certificate['weights']}-{digest}.json"
