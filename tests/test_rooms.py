"""The house: who may import whom (README, "How it is built")."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "minigpt"

# Every room may import from the rooms above it, and from nothing below.
ORDER = [
    {"durable", "errors", "interrupts", "progress", "quiet"},
    {"checkpoints", "run_lock", "run_path"},
    {"reading"},
    {"config"},
    {"tokenizers"},
    {"corpus"},
    {"layers"},
    {"models"},
    {"generation"},
    {"run"},
    {"evaluation"},
    {"samples"},
    {"text_model"},
    {"translation_model"},
    {"loading"},
    {"huggingface"},
    {"export"},
    {"training"},
    {"cli"},
    {"__main__"},
]
TEXT_WING, MODEL_WING = {"tokenizers", "corpus"}, {"layers", "models", "generation"}


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(path: Path) -> set[str]:
    """The rooms that a file imports from."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minigpt."):
            rooms.add(room_of(node.module or ""))
        elif isinstance(node, ast.Import):
            rooms |= {room_of(a.name) for a in node.names if a.name.startswith("minigpt.")}
    return rooms


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_the_table(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    place = next(i for i, rooms in enumerate(ORDER) if room in rooms)
    allowed = set().union(*ORDER[:place], {room})
    if room in TEXT_WING:
        allowed -= MODEL_WING
    if room in MODEL_WING:
        allowed -= TEXT_WING
    assert imports_of(path) <= allowed


def test_no_room_for_odds_and_ends():
    names = {path.stem for path in PACKAGE.rglob("*.py")}
    assert not names & {"utils", "util", "helpers", "misc", "common"}
