"""The page of a portable file without its run. Needs what the engine needs: NumPy and wasmtime."""

import bz2
from pathlib import Path
from typing import Any

import minigpt
from minigpt.errors import UserError
from minigpt.pages.inlining import SHARED, data_elements, json_element, template
from minigpt.runs.layout import bases
from minigpt.runs.records import count, numbers
from minigpt.targets.gguf.text_model import PortableModel, load_portable

_PAGE = Path(__file__).parent / "page"
_ENGINES = Path(__file__).parents[1] / "gguf" / "engine"
SCORES = ("step", "epoch", "val_loss", "val_bits_per_byte")


def write_file_page(file: Path, output: Path) -> None:
    """Writes the page of a portable file without its run; a `UserError` if it is no portable file."""
    model = load_portable(file)
    with file.open("rb") as content:
        if content.read(4) != b"GGUF":
            raise UserError(f"{file}: is a page already; should be a portable file (.gguf)")
    is_base = file in bases().values()
    write_document(file_facts(model, file) | {"is_base": is_base}, {"main": file}, output)


def write_document(
    facts: dict[str, Any],
    models: dict[str, Path | bytes],
    output: Path,
    training_text: str | None = None,
) -> None:
    """Writes a page with its facts and its models; the one called "main" is the model of the page."""
    before, after = template(facts["title"], SHARED, _PAGE, runs_engine=True)
    content = None if training_text is None else training_text.encode()
    facts["training_text_bytes"] = None if content is None else len(content)
    with output.open("w", encoding="utf-8", newline="\n") as page:
        page.write(before)
        page.write(json_element("facts", facts))
        for name in ("engine.wasm", "engine_without_simd.wasm"):
            page.writelines(data_elements("engine", name, _ENGINES / name))
        for name, model in models.items():
            page.writelines(data_elements("model", name, model))
        if content is not None:
            # The page has a decoder for it. gzip, which browsers have, needs a third more.
            page.writelines(data_elements("training-text", "text", bz2.compress(content)))
        page.write(after)


def file_facts(model: PortableModel, file: Path) -> dict[str, Any]:
    """Returns the facts about a portable file as JSON values; null for what only its run knows."""
    step = count(model.training.get("step"))
    config = {name: model.config.get(name) for name in ("model", "sampling")}
    if not all(isinstance(section, dict) for section in config.values()):
        raise UserError(f"{file}: minigpt.config: has no model or sampling settings")
    return {
        "title": file.stem,
        "kind": model.kind,
        "chat": model.tokenizer.chat is not None,
        "version": minigpt.__version__,
        "weights": model.weights,
        "parameters": model.parameters,
        "tokenizer": {
            "kind": model.tokenizer.kind,
            "vocab_size": model.tokenizer.vocab_size,
            "lowercase": model.tokenizer.lowercase,
        },
        **config,
        "text": None,
        **numbers(model.training, SCORES),
        "metrics": [],
        "baselines": None,
        "samples": [],
        "memorization": None,
        "curve": [],
        "snapshots": [] if step is None else [{"step": step, "seconds": None}],
    }
