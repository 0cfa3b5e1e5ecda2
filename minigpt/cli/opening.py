"""Opening what `sample` and `translate` are given: a run, or a portable file."""

import tempfile
from pathlib import Path
from typing import Any

import minigpt
from minigpt.cli.command import check_kind, open_run
from minigpt.cli.output import print_message
from minigpt.config import SamplingConfig, sampling_config
from minigpt.errors import ArgumentProblem, UserError
from minigpt.runs.checkpoints import checkpoint_paths, count_parameters

# The engine addresses 4 GB. On two cores it is faster than TensorFlow: docs/performance.md.
LARGE_BYTES = 1_500_000_000


class OpenedModel:
    """A model that is loaded when it is needed: by the engine or, if that cannot do it, by TensorFlow.

    Args:
      path: a run directory, or a portable file.
      kind: the kind of model that the command needs, "gpt" or "encoder_decoder".
    Attributes:
      sampling: the model's sampling settings.
    Raises:
      UserError: there is neither, or the model is of the other kind.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self._path = path
        self._run: minigpt.Run | None = None
        self._portable: Any = None
        if is_portable(path):
            self._portable = minigpt.load_portable(path)
            check_kind(path, self._portable.kind, kind)
            self.sampling = _sampling_settings(self._portable, path)
        else:
            self._run = open_run(path, kind)
            self.sampling = self._run.config.sampling

    def load(self, beams: int, verbose: bool) -> Any:
        """Loads the model.

        Args:
          beams: more than 1 for a beam search.
          verbose: whether to print what runs the model.
        Returns:
          A `TextModel` or `PortableTextModel`; or a `TranslationModel` or `PortableTranslationModel`.
        Raises:
          UserError: the model cannot be loaded, or a portable file cannot do a beam search.
        """
        if self._run is None:
            if beams > 1:
                problem = "should be 1: a portable file has no beam search, but its run has"
                raise UserError(ArgumentProblem("beams", beams, problem))
            if verbose:
                print_message("Running on the engine.")
            return self._portable
        size = _model_bytes(self._run)
        if beams > 1:
            reason = "beam search"
        elif size > LARGE_BYTES:
            reason = f"a model of {size / 1e6:,.0f} MB"
        else:
            reason = None
        if verbose:
            print_message(
                f"Running on TensorFlow: {reason}." if reason else "Running on the engine."
            )
        return minigpt.load(self._run) if reason else _portable_model(self._run)


def is_portable(path: Path) -> bool:
    """Returns whether a path is to be opened as a portable file: by its name, or by its first bytes."""
    try:
        with path.open("rb") as file:
            return path.suffix == ".gguf" or file.read(4) == b"GGUF"
    except OSError:
        return False


def _sampling_settings(model: Any, path: Path) -> SamplingConfig:
    """Returns the sampling settings in a portable file, which may come from anybody; no beam search."""
    try:
        settings = sampling_config(**model.config["sampling"])
    except (UserError, KeyError, TypeError):
        raise UserError(f"{path}: minigpt.config: has no valid sampling settings") from None
    if settings.beams == 1:
        return settings
    print_message(f"{path}: its setting beams = {settings.beams} needs its run; using 1.")
    return settings.model_copy(update={"beams": 1})


def _portable_model(run: "minigpt.Run") -> Any:
    """Loads the portable file of a run, and writes it first if it is missing, old or damaged."""
    if run.has_current_portable_file:
        try:
            return minigpt.load_portable(run.portable_file)
        except UserError as error:
            print_message(f"{error}; it is written again")
    # Importing the library that writes the file takes as long as everything else here.
    from minigpt.portable.run_file import write_run_file

    try:
        write_run_file(run, run.portable_file)
        print_message(f"Wrote {run.portable_file}, from which the model starts faster.")
        return minigpt.load_portable(run.portable_file)
    except OSError:
        # The directory cannot be written.
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / run.portable_file.name
            write_run_file(run, file)
            return minigpt.load_portable(file)


def _model_bytes(run: "minigpt.Run") -> int:
    """Returns the approximate size of the weights."""
    if run.model_file.is_file():
        return run.model_file.stat().st_size
    paths = checkpoint_paths(run.checkpoints_folder)
    return 4 * (count_parameters(paths[-1]) or 0) if paths else 0
