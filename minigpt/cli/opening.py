"""Opens the model that `sample` and `translate` use: a run, or a portable file."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import minigpt
from minigpt.cli.command import check_kind
from minigpt.cli.terminal import print_message
from minigpt.config.sampling import BY_NAME, TextSettings, settings_of
from minigpt.errors import ArgumentProblem, UserError, failure
from minigpt.runs.layout import LARGE_BYTES, PORTABLE_FILE, check_run, is_current
from minigpt.storage.files import is_newer
from minigpt.targets.gguf.settings import engine_problems

if TYPE_CHECKING:
    from minigpt.runs.run import Run


class OpenedModel:
    """A model that is loaded when it is needed: by the engine or, if that cannot do it, by TensorFlow.

    Args:
      path: a run directory, a portable file, or a page.
      kind: the kind of model that the command needs, "gpt" or "encoder_decoder".
    Attributes:
      sampling: the model's sampling settings: name → value.
    Raises:
      UserError: there is neither, or the model is of the other kind.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind = path, kind
        self._is_file = is_portable(path)
        self._portable: Any = minigpt.load_portable(path) if self._is_file else _opened(path)
        if self._portable is not None:
            check_kind(path, self._portable.kind, kind)
            self.sampling = _sampling_settings(self._portable, path, self._is_file)
        else:
            self.sampling = open_run(path, kind).config.sampling.model_dump()

    def sampling_settings(self, options: Mapping[str, Any]) -> TextSettings:
        """Returns sampling settings: the values of options, and the model's settings for the others.

        Args:
          options: setting → value, None for the model's. Settings without an option are not read.
        Raises:
          UserError: a value, or the seed, cannot be used, or a length penalty has no effect.
        """
        chosen = {
            name: self.sampling.get(name) if value is None else value
            for name, value in options.items()
        }
        settings = settings_of(chosen)
        if (penalty := options.get("length_penalty")) is not None and settings.beams == 1:
            problem = "has an effect only with --beams 2 or more"
            raise UserError(ArgumentProblem("length_penalty", penalty, problem))
        return settings

    def load(self, settings: TextSettings, verbose: bool, adapter: Path | None = None) -> Any:
        """Loads the model.

        Args:
          settings: how texts are generated. Settings that the engine does not have need TensorFlow.
          verbose: whether to print what runs the model.
          adapter: the folder of an adapter, which needs TensorFlow and the run.
        Returns:
          A `TextModel` or `PortableTextModel`; or a `TranslationModel` or `PortableTranslationModel`.
        Raises:
          UserError: the model cannot be loaded, or a portable file cannot do what the settings ask for.
        """
        problems = engine_problems(vars(settings), ", but its run has")
        if self._is_file and problems:
            raise UserError(*problems)
        if self._is_file and adapter:
            problem = f"needs the run directory of the model, not {self._path}"
            raise UserError(ArgumentProblem("adapter", adapter, problem))
        reason, run = None, None
        if adapter:
            reason, run = "an adapter", open_run(self._path, self._kind)
        elif problems:
            reason = "beam search" if problems[0].name == "beams" else problems[0].name
            run = open_run(self._path, self._kind)
        elif self._portable is None:
            run = open_run(self._path, self._kind)
            if (size := _model_bytes(run)) > LARGE_BYTES:
                reason = f"a model of {size / 1e6:,.0f} MB"
            elif not run.has_current_portable_file:
                from minigpt.targets.gguf.writing import portable_problem

                reason = portable_problem(run.config.model, run.load_tokenizer())
        if verbose:
            print_message(
                f"Running on TensorFlow: {reason}." if reason else "Running on the engine."
            )
        if run is None:
            return self._portable
        if reason:
            model: Any = minigpt.load(run)
            if adapter:
                model.load_adapter(adapter)
            return model
        try:
            with tempfile.TemporaryDirectory() as folder:
                return minigpt.load_portable(_portable_file(run, Path(folder)))
        except Exception as error:
            if not run.model_file.is_file():
                run.best_checkpoint()  # Says that there is none, before TensorFlow is imported.
            model = minigpt.load(run)
            print_message(f"{PORTABLE_FILE} cannot be used: {failure(error)}; using TensorFlow")
            return model

    def portable_file(self, folder: Path) -> Path:
        """Returns the portable file of the model; writes it if a run has none that is current.

        Args:
          folder: where to write it if the run directory cannot be written.
        Raises:
          UserError: the run has no model.
        """
        if self._is_file:
            with self._path.open("rb") as content:
                if content.read(4) == b"GGUF":
                    return self._path
            file = folder / PORTABLE_FILE  # A page holds it.
            self._portable.save(file)
            return file
        if self._portable is not None:
            return self._path / PORTABLE_FILE
        return _portable_file(open_run(self._path, self._kind), folder)


def open_run(path: Path, kind: str | None = None) -> "Run":
    """Opens the run that a command takes in place of a portable file.

    Args:
      path: the run directory.
      kind: the kind of model that the command needs; None for any.
    Raises:
      UserError: there is no run, or its model is of another kind.
    """
    check_run(path, or_file=True)
    run = minigpt.Run(path)
    if kind is not None:
        check_kind(path, run.config.model.kind, kind)
    return run


def is_portable(path: Path) -> bool:
    """Returns whether a path is a portable file, or a page that holds one: by its name or first bytes."""
    try:
        with path.open("rb") as file:
            first = file.read(14).lower()
            return path.suffix in (".gguf", ".html") or first.startswith(
                (b"gguf", b"<!doctype html")
            )
    except OSError:
        return False


def _opened(run: Path) -> Any:
    """Opens the portable file of a run without its configuration; None if that is not possible."""
    file = run / PORTABLE_FILE
    try:
        # A configuration is newer if the run was resumed with other sampling settings.
        if not (is_current(run) and is_newer(file, [run / "config.toml"])):
            return None
        return minigpt.load_portable(file) if file.stat().st_size <= LARGE_BYTES else None
    except (OSError, UserError):  # Errors are reported when the run is opened.
        return None


def _sampling_settings(model: Any, path: Path, is_file: bool) -> dict[str, Any]:
    """Returns the sampling settings in a portable file, which may come from anybody.

    Args:
      model: the model.
      path: what the user gave.
      is_file: whether that is the file, without its run: there is no beam search then.
    """
    try:
        settings = {**vars(TextSettings()), **model.config["sampling"]}
        checked = settings_of(settings)
    except (UserError, KeyError, TypeError):
        raise UserError(f"{path}: minigpt.config: has no valid sampling settings") from None
    for problem in engine_problems(vars(checked), "") if is_file else ():
        neutral = BY_NAME[problem.name].neutral
        print_message(
            f"{path}: its setting {problem.name} = {problem.value} needs its run; using {neutral}."
        )
        settings[problem.name] = neutral
    return settings


def _portable_file(run: "Run", folder: Path) -> Path:
    """Returns the portable file of a run, and writes it first if it is missing, old or damaged."""
    if run.has_current_portable_file:
        try:
            minigpt.load_portable(run.portable_file)
            return run.portable_file
        except UserError as error:
            print_message(f"{error}; it is written again")
    # Importing the library that writes the file takes as long as everything else here.
    from minigpt.targets.gguf.run_file import write_run_file

    try:
        write_run_file(run, run.portable_file)
        print_message(f"Wrote {run.portable_file}, from which the model starts faster.")
        return run.portable_file
    except OSError:
        # The directory cannot be written.
        file = folder / run.portable_file.name
        write_run_file(run, file)
        return file


def _model_bytes(run: "Run") -> int:
    """Returns the approximate size of the weights."""
    from minigpt.runs.checkpoints import count_parameters

    if run.model_file.is_file():
        return run.model_file.stat().st_size
    return 4 * (count_parameters(run.checkpoints_folder) or 0)
