"""Counts the functions that receive the configuration, or a section of it, during `minigpt.train`.

    python scripts/walk_of_configuration.py

Trains a tiny model. Prints each function at its first call, and marks those in a file that the walk has
left before. The last line has the numbers.
"""

import io
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

import minigpt
from minigpt.config import Config, load_config
from minigpt.config.section import Section

PACKAGE = Path(minigpt.__file__).parent
CORE = [
    "config",
    "storage",
    "tokenizers",
    "corpus",
    "models",
    "runs",
    "generation",
    "evaluation",
    "training",
]
SETTINGS = (
    "data.source=files",
    "tokenizer.vocab_size=320",
    "model.max_len=16",
    "model.embed_dim=8",
    "model.num_heads=2",
    "model.num_layers=1",
    "training.epochs=1",
    "training.steps_per_epoch=2",
    "training.batch_size=4",
    "sampling.max_new_tokens=8",
)
# (file, function) → whether it receives the whole configuration, in the order of the first calls.
found: dict[tuple[str, str], bool] = {}


def note(frame: FrameType, event: str, _: Any) -> None:
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(str(PACKAGE)):
        return
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    values = [frame.f_locals.get(name) for name in names if name not in ("self", "cls")]
    if sections := [value for value in values if isinstance(value, Section)]:
        file = str(Path(code.co_filename).relative_to(PACKAGE))
        is_whole = any(isinstance(section, Config) for section in sections)
        found.setdefault((file, code.co_qualname), is_whole)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text("Ana sat on the hill, and Béla ate 7 figs.\n" * 100, encoding="utf-8")
        config = load_config(None, [*SETTINGS, f'data.paths=["{text}"]'])
        sys.setprofile(note)
        minigpt.train(config, Path(folder, "run"), console=Console(file=io.StringIO()))
        sys.setprofile(None)
    files: list[str] = []
    returns = 0
    for file, function in found:
        is_return = file in files[:-1] and file != files[-1]
        returns += is_return
        files.append(file)
        print(file, function, "(returns)" if is_return else "")
    core = sum(file.split("/")[0] in CORE for file, _ in found)
    print(
        f"{len(found)} functions receive a part of the configuration, {core} of them in the core; "
        f"{sum(found.values())} receive all of it; {returns} returns to an earlier file"
    )


if __name__ == "__main__":
    main()
