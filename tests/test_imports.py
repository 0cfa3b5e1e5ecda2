"""The layout of the code: which package may import which, and the length of files."""

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = PROJECT / "minigpt"

# Each package imports only from those above it in this list.
ORDER = [
    "errors",
    "interrupts",
    "environment",
    "notices",
    "storage",
    "distribution",
    "config",
    "tokenizers",
    "losses",
    "layers",
    "models",
    "corpus",
    "runs",
    "generation",
    "huggingface",
    "evaluation",
    "inference",
    "portable",
    "analysis",
    "pages",
    "certification",
    "export",
    "training",
    "serving",
    "cli",
    "__main__",
]
TEXT, MODEL = {"tokenizers", "corpus"}, {"losses", "layers", "models", "generation"}


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(path: Path) -> set[str]:
    """The packages that a file imports from."""
    packages = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minigpt."):
            packages.add(package_of(node.module or ""))
        elif isinstance(node, ast.Import):
            packages |= {package_of(a.name) for a in node.names if a.name.startswith("minigpt.")}
    return packages


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_the_list(path):
    package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    allowed = set(ORDER[: ORDER.index(package) + 1])
    if package in TEXT:
        allowed -= MODEL
    if package in MODEL:
        allowed -= TEXT
    assert imports_of(path) <= allowed


def test_at_most_four_modules_at_the_root():
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert len(modules) <= 4


@pytest.mark.parametrize("folder", ["minigpt", "scripts", "tests", "examples"])
def test_no_file_over_400_lines(folder):
    lengths = {
        str(path.relative_to(PROJECT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in (PROJECT / folder).rglob("*.py")
    }
    assert lengths
    assert {path: length for path, length in lengths.items() if length > 400} == {}


def test_no_package_for_odds_and_ends():
    names = {path.stem for path in PACKAGE.rglob("*.py")}
    assert not names & {"utils", "util", "helpers", "misc", "common"}
