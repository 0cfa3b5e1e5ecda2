"""`open_model`: the model of a run or a file, in the engine or in TensorFlow. Which one is decided here.

The core does not know the engine, so this is not in `minigpt.runs`. TensorFlow, pydantic and wasmtime are
imported when a model needs them.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import minigpt
from minigpt.config.sampling import BY_NAME, TextSettings, engine_problems, settings_of
from minigpt.errors import ArgumentProblem, UserError, failure
from minigpt.notices import LOGGER
from minigpt.runs.layout import LARGE_BYTES, PORTABLE_FILE, check_run, is_current, model_path

if TYPE_CHECKING:
    from minigpt.generation.base_models import BaseTextModel, BaseTranslationModel
    from minigpt.runs.run import Run


def open_model(run: "Run | str | Path", **settings: Any) -> "BaseTextModel | BaseTranslationModel":
    """Opens a model that generates text: in the engine, which starts at once, or else in TensorFlow.

    TensorFlow runs what the engine cannot: `beams` of translations, a model of more than 1.5 GB, and one
    with parts that portable files do not have. The engine reads `model.gguf` of the run, which is written
    first if it is missing or older than the newest checkpoint. The texts of both are the same, except where
    two tokens are almost equally probable.

    This is decided once. A translation model in the engine refuses `beams=4` later, with an error that
    names `minigpt.load`; `open_model(run, beams=4)` opens one that has it. `minigpt.load` returns the Keras
    model of a run (`model`, `latents`, `evaluate`), `minigpt.load_portable` the engine.

    Args:
      run: a run, its directory, a portable file (`model.gguf`), a page that `minigpt export` wrote, or the
        name of a base ("english").
      **settings: settings of `[sampling]` that texts will be generated with, if they may need TensorFlow.
        They are not kept: the methods of the model take them.
    Returns:
      A `PortableTextModel` or a `TextModel`; for a model that was trained on pairs, a
      `PortableTranslationModel` or a `TranslationModel`.
    Raises:
      UserError: there is no run or model, it cannot be read, a setting cannot be used, or a file cannot do
        what its run could.
      TypeError: `run` is neither a run nor a path.
    """
    place: Any = run
    source = ModelSource(model_path(getattr(place, "path", place)))
    return source.open(settings_of(settings, source.kind))


class ModelSource:
    """A run, or a file, whose model is opened when it is needed.

    Args:
      path: a run directory, a portable file, or a page.
    Attributes:
      kind: "gpt" or "encoder_decoder".
      reason: why `open` chose TensorFlow; None if the engine runs the model.
    Raises:
      UserError: there is neither, or the file cannot be read.
    """

    reason: str | None = None

    def __init__(self, path: Path) -> None:
        self.path, self.is_file = path, is_portable(path)
        # A run's file is opened without reading its configuration, which imports pydantic.
        self._portable: Any = _in_engine(path) if self.is_file else _current(path)
        self.kind: str = self._portable.kind if self._portable else self.run.config.model.kind

    @cached_property
    def run(self) -> "Run":
        """The run; a `UserError` if there is none."""
        check_run(self.path, any_model=True)
        return minigpt.Run(self.path)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the model."""
        return self._portable.tokenizer if self._portable else self.run.load_tokenizer()

    def settings(self, given: Mapping[str, Any], engine_only: bool = False) -> TextSettings:
        """Returns the sampling settings of the model, with other values for those that are given.

        Args:
          given: setting → value.
          engine_only: whether its own settings that the engine lacks are left out, with a warning. Those
            of a file always are: whoever has only the file has no run.
        Raises:
          UserError: a value cannot be used, or the file has no valid settings.
        """
        damaged = f"{self.path}: minigpt.config: has no valid sampling settings"
        if self._portable is None:
            own = self.run.config.sampling.model_dump()
        elif not isinstance(own := self._portable.config.get("sampling"), dict):
            raise UserError(damaged)
        try:
            settings = settings_of({**own, **given})
        except UserError as error:
            wrong = [problem for problem in error.args if problem.name in given]
            raise UserError(*(wrong or [damaged])) from None
        if "length_penalty" in given and settings.beams == 1:
            problem = "has an effect only with beams of 2 or more"
            raise UserError(ArgumentProblem("length_penalty", given["length_penalty"], problem))
        if engine_only or self.is_file:
            for found in engine_problems(vars(settings), ""):
                if found.name not in given:
                    neutral = BY_NAME[found.name].neutral
                    shown = f"{found.name} = {found.value} needs its run"
                    LOGGER.warning("%s: its setting %s; using %s.", self.path, shown, neutral)
                    settings = replace(settings, **{found.name: neutral})
        return settings

    def open(self, settings: TextSettings) -> Any:
        """Opens the model, for texts that are generated with these settings.

        Raises:
          UserError: the model cannot be loaded, or a file cannot do what the settings ask for.
        """
        problems = engine_problems(vars(settings), ", but its run has")
        if self.is_file and problems:
            raise UserError(*problems)
        if problems or self._portable is None:
            self.reason = why_tensorflow(self.run, vars(settings))
        if self.reason is None:
            try:
                return self._portable or self._written()
            except Exception as error:
                if not self.run.model_file.is_file():
                    self.run.best_checkpoint()  # Says that there is none, before TensorFlow is imported.
                self.reason = f"{PORTABLE_FILE} cannot be used: {failure(error)}"
                LOGGER.warning("%s; using TensorFlow", self.reason)
        return minigpt.load(self.run)

    def _written(self) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return _in_engine(self.portable_file(Path(folder)))

    def portable_file(self, folder: Path) -> Path:
        """Returns the portable file of the model; writes it if a run has none that is current and whole.

        The file of a page, or of a run directory that cannot be written, is written into `folder`.

        Raises:
          UserError: the run has no model.
        """
        if self.is_file:
            with self.path.open("rb") as content:
                if content.read(4) == b"GGUF":
                    return self.path
            self._portable.save(folder / PORTABLE_FILE)
            return folder / PORTABLE_FILE
        file = self.path / PORTABLE_FILE
        if self._portable is not None:
            return file
        if is_current(self.path):
            try:
                _in_engine(file)
                return file
            except UserError as error:
                LOGGER.warning("%s; it is written again", error)
        # Importing the library that writes the file takes as long as everything else here.
        from minigpt.targets.gguf.run_file import write_run_file

        try:
            write_run_file(self.run, file)
            LOGGER.info("Wrote %s, from which the model starts faster.", file)
        except OSError:  # The directory cannot be written.
            file = folder / PORTABLE_FILE
            write_run_file(self.run, file)
        return file


def why_tensorflow(run: "Run", settings: Mapping[str, Any]) -> str | None:
    """Returns why TensorFlow has to run the model of a run with some settings; None if the engine can."""
    if problems := engine_problems(settings, ""):
        return "beam search" if problems[0].name == "beams" else problems[0].name
    is_whole, parameters = run.model_file.is_file(), run.facts.get("parameters", 0)
    size = run.model_file.stat().st_size if is_whole else 4 * parameters
    if size > LARGE_BYTES:
        return f"a model of {size / 1e6:,.0f} MB"
    if is_current(run.path):
        return None
    from minigpt.targets.gguf.writing import portable_problem

    return portable_problem(run.config.model, run.load_tokenizer())


def is_portable(path: Path) -> bool:
    """Returns whether a path is a portable file, or a page that holds one: by its name or first bytes."""
    try:
        with path.open("rb") as file:
            begins_so = file.read(14).lower().startswith((b"gguf", b"<!doctype html"))
            return begins_so or path.suffix in (".gguf", ".html")
    except OSError:
        return False


def _in_engine(path: Path) -> Any:
    from minigpt.targets.gguf.text_model import load_portable

    return load_portable(path)


def _current(run: Path) -> Any:
    """Opens the portable file of a run; None if it is missing, old, damaged or large."""
    file = run / PORTABLE_FILE
    try:
        # A configuration is newer if the run was resumed with other sampling settings.
        if is_current(run, "config.toml") and file.stat().st_size <= LARGE_BYTES:
            return _in_engine(file)
    except (OSError, UserError):  # Errors are reported when the run is opened.
        pass
    return None
