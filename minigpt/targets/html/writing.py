"""The page of a model: one HTML file that writes text, without a network."""

import tempfile
from pathlib import Path
from typing import Any

from minigpt.errors import UserError
from minigpt.notices import LOGGER
from minigpt.pages.inlining import SHARED, data_elements, json_element, template
from minigpt.runs.run import Run
from minigpt.targets.gguf.loading import load_portable
from minigpt.targets.gguf.run_file import best_facts, write_run_file
from minigpt.targets.gguf.text_model import PortableModel
from minigpt.targets.html.facts import file_facts, model_facts
from minigpt.targets.targets import WeightsType

_PAGE = Path(__file__).parent / "page"
# Each is as large as the model in int8.
_MOST_EPOCHS = 12
_ENGINES = Path(__file__).parents[1] / "gguf" / "engine"


def write_page(run: Run, output: Path, weights: WeightsType = "float32") -> None:
    """Writes a run's best model as a page.

    Args:
      run: the run.
      output: the file.
      weights: how matrices are stored; see `minigpt.targets.gguf.writing.write_portable`.
    Raises:
      UserError: the run has no model.
      OSError: the file cannot be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.gguf"
        write_run_file(run, model, weights)
        _write(run, model, weights, output)


def write_file_page(file: Path, output: Path) -> None:
    """Writes the page of a portable file without its run.

    Args:
      file: the portable file.
      output: the file to write.
    Raises:
      UserError: it is not a portable file.
      OSError: the page cannot be written.
    """
    _write_page(file_facts(file), {"main": file}, output)


def _write(run: Run, model: Path, weights: WeightsType, output: Path) -> None:
    best, epochs = best_facts(run)["epoch"], _epochs(run, model)
    facts = model_facts(run, model, weights, {epoch: epoch == best for epoch in epochs})
    others = {str(epoch): path for epoch, path in epochs.items() if epoch != best}
    _write_page(facts, {"main": model, **others}, output)


def _write_page(facts: dict[str, Any], models: dict[str, Path], output: Path) -> None:
    before, after = template(facts["title"], SHARED, _PAGE, runs_engine=True)
    with output.open("w", encoding="utf-8", newline="\n") as page:
        page.write(before)
        page.write(json_element("facts", facts))
        for name in ("engine.wasm", "engine_without_simd.wasm"):
            page.writelines(data_elements("engine", name, _ENGINES / name))
        for name, path in models.items():
            page.writelines(data_elements("model", name, path))
        page.write(after)


def _epochs(run: Run, model: Path) -> dict[int, Path]:
    """Returns the epochs that the page shows and their files; none if there is nothing to compare."""
    paths = _some(_usable(run.epoch_files(), load_portable(model)))
    return {int(path.stem.split("-")[1]): path for path in paths} if len(paths) > 1 else {}


def _usable(paths: list[Path], model: PortableModel) -> list[Path]:
    """Returns the files of epochs of a model; logs a warning for each of the others."""
    found = []
    for path in paths:
        try:
            epoch = load_portable(path)
            if (epoch.kind, epoch.max_len) != (model.kind, model.max_len):
                raise UserError(f"{path}: is another model")
            if epoch.tokenizer.pieces != model.tokenizer.pieces:
                raise UserError(f"{path}: has another vocabulary")
        except UserError as error:
            LOGGER.warning("%s; the page is without this epoch", error)
        else:
            found.append(path)
    return found


def _some(paths: list[Path]) -> list[Path]:
    """Returns at most `_MOST_EPOCHS` paths at about equal distances, the first and the last among them."""
    if len(paths) <= _MOST_EPOCHS:
        return paths
    last = len(paths) - 1
    return [paths[round(i * last / (_MOST_EPOCHS - 1))] for i in range(_MOST_EPOCHS)]
