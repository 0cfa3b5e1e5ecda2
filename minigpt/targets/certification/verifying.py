"""verify: compares an export that exists with a run."""

from pathlib import Path
from typing import Any

from minigpt.environment import install_command
from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.runs.run import Run, as_run
from minigpt.targets.certification.certificate import certify
from minigpt.targets.certification.exported import ExportedModel
from minigpt.targets.certification.record import record_certificate
from minigpt.targets.targets import Target, target_of

_MOST_CHARACTERS = 200


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
      TypeError: an argument is not a path.
    """
    run, path = as_run(against), as_path("path", path)
    target = target_of(path)
    certificate = certify(path, run, target.name, export=_opened(path, target))
    record_certificate(run, path, certificate)
    return certificate


def _opened(path: Path, target: Target) -> ExportedModel:
    """Opens a file or folder that may be damaged: each library has exceptions of its own for that."""
    try:
        return target.open(path)
    except (UserError, MemoryError):
        raise
    except ModuleNotFoundError as error:
        problem = f"{error.name} is not installed: {install_command(target.name)}"
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        problem = f"cannot be read as {target.name}: {reason[:_MOST_CHARACTERS]}"
    raise UserError(ArgumentProblem("path", path, problem))
