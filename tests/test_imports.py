"""The layout of the code: which package may import which, imports inside functions included."""

import ast
import graphlib
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = PROJECT / "minigpt"

ROOT = {"errors", "interrupts", "environment", "notices"}
CORE = ROOT | {
    "config",
    "storage",
    "tokenizers",
    "corpus",
    "models",
    "runs",
    "generation",
    "evaluation",
    "training",
}
# Each knows the core. The core knows none of them.
AROUND = {
    "distribution": set(),
    "pages": set(),
    "targets": {"pages"},
    "insight": {"targets", "pages", "distribution"},
    "serving": {"targets"},
}
# They join the others.
TOP = {"app", "cli", "__init__", "__main__", "layers", "losses", "stderr_filter"}


NAMES = CORE | set(AROUND) | TOP


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(path: Path) -> set[str]:
    """The packages that a file names in an import, within functions and in strings too."""
    packages = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: a relative import"
            if node.module == "minigpt":
                names = {alias.name for alias in node.names}
                packages |= {name if name in NAMES else "__init__" for name in names}
            elif (node.module or "").startswith("minigpt."):
                packages.add(package_of(node.module or ""))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.match(rf"minigpt\.({'|'.join(AROUND)})\b", node.value):
                packages.add(package_of(node.value))
        elif isinstance(node, ast.Import):
            packages |= {
                package_of(a.name) for a in node.names if a.name.partition(".")[0] == "minigpt"
            }
    return packages


FILES = sorted(PACKAGE.rglob("*.py"))


def test_the_core_knows_nothing_of_its_surroundings():
    wrong = {}
    for path in FILES:
        package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        # Those around the core have the version of the package from `import minigpt`.
        around = AROUND[package] | {"__init__"} if package in AROUND else set()
        found = imports_of(path) - CORE - {package} - around
        if found and package not in TOP:
            wrong[path] = found
    assert not wrong


def test_each_package_has_a_place():
    packages = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES}
    assert packages == CORE | set(AROUND) | TOP


def test_no_file_over_500_lines():
    files = [
        path
        for folder in ("minigpt", "scripts", "tests", "examples")
        for path in (PROJECT / folder).rglob("*.py")
    ]
    assert files
    assert [f for f in files if len(f.read_text(encoding="utf-8").splitlines()) > 500] == []


def imported_files(path: Path, names: dict[str, Path]) -> set[Path]:
    """The files that a file imports, within functions too; not what only type checkers import.

    Names in tables from which a file is imported on demand, such as `TARGETS`, do not count.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    files = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            files |= {names.get(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            of_package = names.get(node.module or "")
            files |= {names.get(f"{node.module}.{a.name}", of_package) for a in node.names}
    return {file for file in files if file}


def test_no_circle():
    """No file imports itself through others."""
    names = {}
    for path in FILES:
        parts = path.relative_to(PROJECT).with_suffix("").parts
        names[".".join(parts).removesuffix(".__init__")] = path
    imports = {path: imported_files(path, names) for path in FILES}
    assert any(imports.values())
    graphlib.TopologicalSorter(imports).prepare()  # Raises a CycleError that names the files.


# A command has the name of what it calls; a graph, that of the tokenizer; the functions that apply the
# settings of `[sampling]`, that of the section; the public losses, that of the file they are from.
SAME_NAMES = {"__init__", "export", "launch", "sweep", "gpt2", "sampling", "losses"}


def test_a_name_stands_for_one_file_and_one_class():
    stems = [path.stem for path in FILES]
    assert {stem for stem in stems if stems.count(stem) > 1} == SAME_NAMES
    text = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    classes = re.findall(r"^class (\w+)", text, re.MULTILINE)
    assert {name for name in classes if classes.count(name) > 1} == set()
