"""The page of a model: one HTML file that writes text, without a network."""

import gzip
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from minigpt.corpus.token_ids import decode_documents
from minigpt.errors import UserError
from minigpt.notices import LOGGER
from minigpt.runs.layout import run_error
from minigpt.runs.records import count, interval_lines, number, numbers, read_lines, spread
from minigpt.runs.run import Run, open_run_corpus
from minigpt.targets.gguf.run_file import write_run_file
from minigpt.targets.gguf.text_model import PortableModel, load_portable
from minigpt.targets.gguf.writing import write_checksum
from minigpt.targets.html.file_page import file_facts, write_document
from minigpt.targets.targets import WeightsType

# All snapshots together are at most this many times as large as the model in int8.
_SNAPSHOTS_SIZE = 4
# Between two levels of the numbers of a snapshot; those of int8 are 1 apart.
_LEVEL = 18
# Between two documents: no character of a text.
END_OF_DOCUMENT = "\uffff"
_MOST_TEXT = 50_000_000
# Of the training curve.
_MOST_POINTS = 200
# Epochs whose samples are shown, and samples in which copied passages are.
_MOST_SAMPLES, _MOST_MEASURED = 100, 30
# Nats per token; bits per byte.
_BASELINES = ("uniform", "unigram")
_COUNTED = ("ngram_bits_per_byte", "byte_ngram_bits_per_byte", "ppmd_bits_per_byte")


def training_text(run: Run) -> str:
    """Returns the training text of a run as its tokenizer writes it.

    `END_OF_DOCUMENT` stands between documents, and between the messages of dialogues.
    """
    corpus = open_run_corpus(run)
    if (size := corpus.train.bytes) > _MOST_TEXT:
        problem = f"its training text has {size:,} bytes; a page holds at most {_MOST_TEXT:,}"
        raise run_error(run.path, problem)
    ids, tokenizer = corpus.train.ids, corpus.tokenizer
    if tokenizer.chat:
        ids = np.where(ids < len(tokenizer.text_pieces), ids, tokenizer.end_id)
    return END_OF_DOCUMENT.join(decode_documents(ids, tokenizer))


def write_page(
    run: Run, output: Path, weights: WeightsType = "float32", text: str | None = None
) -> None:
    """Writes a run's best model as a page.

    Args:
      run: the run. Its records may be damaged, or come from somebody else.
      weights: how matrices are stored.
      text: the training text, if the page should contain it; see `training_text`.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.gguf"
        write_run_file(run, file, weights)
        model = load_portable(file)
        facts, states = _run_facts(run, model, file), _snapshots(run, model, Path(folder))
        lines = read_lines(run.steps_file)
        points = interval_lines(lines, _MOST_POINTS)
        facts["curve"] = [numbers(p, ("step", "loss")) for p in points if p["loss"] is not None]
        steps = [*states, *(snapshot["step"] for snapshot in facts["snapshots"])]
        facts["snapshots"] = [{"step": step, "seconds": _seconds(lines, step)} for step in steps]
        others = {str(index): state for index, state in enumerate(states.values())}
        write_document(facts, {"main": file, **others}, output, text)


def _run_facts(run: Run, model: PortableModel, file: Path) -> dict[str, Any]:
    """Returns the facts about a run and its portable file as JSON values; null for what is not known."""
    config, recorded, facts = run.config, run.facts, file_facts(model, file)
    analysis = run.analysis
    baselines = asdict(analysis.baselines) | recorded.get("baselines", {})
    if memorization := analysis.memorization.get("best"):
        memorization = replace(memorization, samples=memorization.samples[:_MOST_MEASURED])
    # The n-grams and PPMd are measured on whole dialogues, and the model on their answers.
    compared = _BASELINES if model.tokenizer.chat else (*_BASELINES, *_COUNTED)
    return facts | {
        "title": run.path.absolute().name,
        "base": Path(config.training.init_from or "").name or None,
        "parameters": recorded.get("parameters", facts["parameters"]),
        "model": config.model.resolved().model_dump(mode="json"),
        "text": {
            "source": config.data.source,
            "description": recorded.get("text"),
            **{name: recorded.get(name) for name in ("train_bytes", "train_tokens", "val_tokens")},
            "license": config.data.license,
        },
        "metrics": [numbers(record, record) for record in _of_epochs(run.metrics_file)],
        "baselines": numbers(baselines, compared) if any(baselines.values()) else None,
        "samples": _samples(run.samples_file),
        "memorization": asdict(memorization) if memorization else None,
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


def _snapshots(run: Run, model: PortableModel, folder: Path) -> dict[int, bytes]:
    """Returns states of training before the best one by their step: portable files, packed.

    They are the snapshots of the run. `folder` is for temporary files.
    """
    if (last := count(model.training.get("step"))) is None:
        return {}
    found = _usable(list(run.snapshots().values()), model)
    steps = [step for step in sorted(found) if step < last]
    packed = {step: _packed(found[step], folder / "state.gguf") for step in steps}
    largest = max(map(len, packed.values()), default=0)
    allowed = _SNAPSHOTS_SIZE * found[steps[0]].stat().st_size // largest if steps else 0
    return {step: packed[step] for step in spread(steps, allowed)}


def _packed(path: Path, copy: Path) -> bytes:
    """Compresses a portable file after rounding its matrices to 15 levels in place of 255.

    The file stays one that the engine reads. Rounding halves the compressed size. `copy` is overwritten.
    """
    content = np.fromfile(path, np.uint8)
    for tensor in gguf.GGUFReader(path).tensors:
        if tensor.tensor_type == gguf.GGMLQuantizationType.Q8_0:
            start, size = tensor.data_offset, tensor.n_bytes
            # Blocks of a float16 scale and 32 numbers.
            numbers = content[start : start + size].reshape(-1, 34)[:, 2:].view(np.int8)
            levels = np.rint(numbers / np.float32(_LEVEL)).clip(-7, 7)
            numbers[:] = levels.astype(np.int8) * _LEVEL
    content.tofile(copy)
    write_checksum(copy)
    return gzip.compress(copy.read_bytes(), mtime=0)


def _seconds(lines: list[dict[str, Any]], step: int) -> float:
    """Returns the seconds of training until a step, from the lines of steps.jsonl; 0.0 if not known."""
    times = [number(line.get("seconds")) for line in interval_lines(lines) if line["step"] <= step]
    return next((time for time in reversed(times) if time is not None), 0.0)


def _usable(paths: list[Path], model: PortableModel) -> dict[int, Path]:
    """Returns the files of a model's states by their step; logs a warning for each of the others."""
    found = {}
    for path in paths:
        try:
            state = load_portable(path)
            step = count(state.training.get("step"))
            both = [(m.kind, m.max_len, m.tokenizer.pieces) for m in (state, model)]
            if both[0] != both[1] or step is None:
                raise UserError(f"{path}: is no state of this model")
            found[step] = path
        except UserError as error:
            LOGGER.warning("%s; the page is without this state of training", error)
    return found
