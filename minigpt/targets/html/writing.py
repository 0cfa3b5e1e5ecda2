"""The page of a model: one HTML file that writes text, without a network."""

import math
import tempfile
from pathlib import Path
from typing import Any

import gguf

import minigpt
from minigpt.errors import UserError
from minigpt.notices import LOGGER
from minigpt.pages.inlining import SHARED, data_elements, json_element, template
from minigpt.pages.memorization_values import memorization_values
from minigpt.runs.checkpoints import count_parameters
from minigpt.runs.records import mapping, numbers, read_lines, spread
from minigpt.runs.run import Run
from minigpt.targets.gguf.run_file import write_run_file
from minigpt.targets.gguf.text_model import PortableModel, load_portable
from minigpt.targets.targets import WeightsType

_PAGE = Path(__file__).parent / "page"
_ENGINES = Path(__file__).parents[1] / "gguf" / "engine"
# Each is as large as the model in int8.
_MOST_EPOCHS = 12
# Epochs whose samples are shown.
_MOST_SAMPLES = 100
_SCORES = ("step", "epoch", "val_loss", "val_bits_per_byte")
_BASELINES = (
    *("uniform", "unigram", "ngram_bits_per_byte", "byte_ngram_bits_per_byte"),
    *("ppmd_bits_per_byte", "xz_bits_per_byte", "zstd_bits_per_byte"),
)


def write_page(run: Run, output: Path, weights: WeightsType = "float32") -> None:
    """Writes a run's best model as a page.

    Args:
      run: the run. Its records may be damaged, or come from somebody else.
      output: the file.
      weights: how matrices are stored; see `minigpt.targets.gguf.writing.write_portable`.
    Raises:
      UserError: the run has no model.
      OSError: the file cannot be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.gguf"
        write_run_file(run, file, weights)
        model = load_portable(file)
        epochs = _epochs(run, model)
        facts = _run_facts(run, model, file, list(epochs))
        others = {str(epoch): path for epoch, path in epochs.items() if epoch != facts["epoch"]}
        _write_page(facts, {"main": file, **others}, output)


def write_file_page(file: Path, output: Path) -> None:
    """Writes the page of a portable file without its run.

    Args:
      file: the portable file.
      output: the file to write.
    Raises:
      UserError: it is not a portable file.
      OSError: the page cannot be written.
    """
    _write_page(_file_facts(load_portable(file), file), {"main": file}, output)


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


def _file_facts(model: PortableModel, file: Path) -> dict[str, Any]:
    """Returns the facts about a portable file as JSON values; null for what only its run knows.

    Raises:
      UserError: its configuration is damaged.
    """
    config = {name: model.config.get(name) for name in ("model", "sampling")}
    if not all(isinstance(section, dict) for section in config.values()):
        raise UserError(f"{file}: minigpt.config: has no model or sampling settings")
    tensors = gguf.GGUFReader(file).tensors
    return {
        "title": file.stem,
        "kind": model.kind,
        "version": minigpt.__version__,
        "weights": model.weights,
        "parameters": sum(math.prod(map(int, tensor.shape)) for tensor in tensors),
        "tokenizer": {
            "kind": model.tokenizer.kind,
            "vocab_size": model.tokenizer.vocab_size,
            "lowercase": model.tokenizer.lowercase,
        },
        **config,
        "text": None,
        **numbers(model.training, _SCORES),
        "metrics": [],
        "baselines": None,
        "samples": [],
        "memorization": None,
        "command": None,
        "epochs": [],
    }


def _run_facts(run: Run, model: PortableModel, file: Path, epochs: list[int]) -> dict[str, Any]:
    """Returns the facts about a run and its portable file as JSON values; null for what is not known.

    Args:
      run: the run.
      model: its portable file.
      file: the path of that.
      epochs: the epochs that the page shows.
    """
    config, recorded, facts = run.config, run.facts, _file_facts(model, file)
    counted = recorded.get("parameters") or count_parameters(run.checkpoints_folder)
    metrics = [numbers(record, record) for record in _of_epochs(run.metrics_file)]
    baselines = mapping(run.analysis.get("baselines")) | mapping(recorded.get("baselines"))
    by_epoch = {record["epoch"]: record for record in metrics}
    return facts | {
        "title": run.path.absolute().name,
        "parameters": counted or facts["parameters"],
        "model": config.model.resolved().model_dump(mode="json"),
        "text": {
            "source": config.data.source,
            "description": recorded.get("text"),
            "train_bytes": recorded.get("train_bytes"),
            "train_tokens": recorded.get("train_tokens"),
            "val_tokens": recorded.get("val_tokens"),
            "license": config.data.license,
        },
        "metrics": metrics,
        "baselines": numbers(baselines, _BASELINES) if baselines else None,
        "samples": _samples(run.samples_file),
        "memorization": memorization_values(run.analysis.get("memorization")).get("best"),
        "command": recorded.get("command"),
        "epochs": [
            {
                "epoch": epoch,
                "in_main": epoch == facts["epoch"],
                "val_loss": by_epoch.get(epoch, {}).get("val_loss"),
                "val_bits_per_byte": by_epoch.get(epoch, {}).get("val_bits_per_byte"),
            }
            for epoch in epochs
        ],
    }


def _of_epochs(file: Path) -> list[dict[str, Any]]:
    """Returns the records of a file that name an epoch."""
    return [record for record in read_lines(file) if type(record.get("epoch")) is int]


def _samples(file: Path) -> list[dict[str, Any]]:
    """Returns the samples of every epoch, or of `_MOST_SAMPLES` epochs at about equal distances."""
    records = _of_epochs(file)
    shown = set(spread(sorted({record["epoch"] for record in records}), _MOST_SAMPLES))
    names = ("prompt", "text", "source", "reference")
    return [
        {"epoch": record["epoch"]}
        | {name: record[name] for name in names if isinstance(record.get(name), str)}
        for record in records
        if record["epoch"] in shown and isinstance(record.get("text"), str)
    ]


def _epochs(run: Run, model: PortableModel) -> dict[int, Path]:
    """Returns the epochs that the page shows and their files: none, or from 2 to `_MOST_EPOCHS`."""
    paths = spread(_usable(run.epoch_files(), model), _MOST_EPOCHS)
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
