"""The distribution: its name wherever an installation is described, and what it depends on."""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import minigpt
from minigpt.environment import install_command
from minigpt.targets import targets

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
# What users install for a feature.
FEATURES = [
    "data",
    "datasets",
    "documents",
    "grammar",
    "huggingface",
    "litert",
    "onnx",
    "serve",
    "tensorboard",
]
FOLDERS = ["minigpt", "scripts", "examples", "tests", "docs", "configs", "data", "packaging"]
KINDS = {".md", ".py", ".toml", ".ipynb", ".js", ".html", ".cjs"}
TEXTS = [
    *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in KINDS),
    *(ROOT / name for name in ("Makefile", ".ci/run", "Dockerfile", "pyproject.toml")),
    *ROOT.glob("*.md"),
]
# The index has another program of the name minigpt, and nothing of this project yet. Files and folders of
# these names are not meant, nor is what follows in another sentence.
NAME = r"(?<![\w./-])minigpt(?:[-_](?:keras|portable))?"
ON_AN_INDEX = re.compile(
    rf"{NAME}\[(?:{'|'.join(EXTRAS)})\]|pip3? (?:install|download)\b(?:[^\n.]|\.(?! ))*{NAME}(?![\w./-])"
)


def installs_from_an_index(text: str) -> list[str]:
    return [found[0] for found in ON_AN_INDEX.finditer(text)]


def test_no_text_says_to_install_what_the_project_does_not_own():
    assert len(TEXTS) > 500
    found = {
        str(path.relative_to(ROOT)): installs_from_an_index(path.read_text(encoding="utf-8"))
        for path in TEXTS
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_files_of_the_distribution_have_its_name_and_version():
    """Such as minigpt_keras-0.2.0-py3-none-any.whl."""
    assert metadata.version(PROJECT["name"]) == minigpt.__version__
    names = ("minigpt_keras", "minigpt_portable")
    wheels = {f"{name}-{minigpt.__version__}-py3-none-any.whl" for name in names}
    named = {
        name
        for path in TEXTS
        for name in re.findall(r"\w+-[\d.]+-py3-none-any\.whl", path.read_text(encoding="utf-8"))
    }
    assert named == wheels


def test_the_command_for_an_extra_works_as_printed():
    for extra in FEATURES:
        command = shlex.split(install_command(extra))
        assert command[0] == sys.executable
        assert {parts(required) for required in command[4:]} == {parts(r) for r in EXTRAS[extra]}
    # They are installed, so pip needs no index.
    done = subprocess.run([*command, "--no-index", "--dry-run"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def parts(requirement: str) -> tuple[str, frozenset[str]]:
    name, versions = re.fullmatch(r"([\w.-]+)(.*)", requirement).groups()
    return re.sub(r"[-_.]+", "-", name).lower(), frozenset(versions.split(","))


def test_without_a_package_of_a_format(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "find_spec", lambda name: None)
    for name in ("litert", "onnx"):
        with pytest.raises(minigpt.UserError) as caught:
            minigpt.export_run(tiny_run, name, tmp_path / "export")
        assert str(caught.value).startswith(f"format = '{name}': ")
        assert str(caught.value).endswith(f" not installed: {install_command(name)}")
    assert not list(tmp_path.iterdir())


# Module → distribution, where the names differ. These modules are generated and import protobuf themselves.
# ipykernel, in which the code of a notebook runs, requires IPython.
OTHER_NAMES = {
    "sentencepiece_model_pb2": "protobuf",
    "PIL": "pillow",
    "griffe": "griffelib",
    "IPython": "ipykernel",
}


def imported_distributions(path: Path) -> set[str]:
    """The distributions that a file imports, by the names of their modules."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules.add(node.module or "")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("importorskip"):
            modules |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
    names = {module.split(".")[0] for module in modules} - sys.stdlib_module_names
    names = {OTHER_NAMES.get(name, name) for name in names}
    names |= {OTHER_NAMES[last] for m in modules if (last := m.split(".")[-1]) in OTHER_NAMES}
    return {name.replace("_", "-") for name in names}


@pytest.mark.parametrize(
    ("folder", "extras"),
    [("minigpt", FEATURES), ("examples", ["dev"]), ("scripts", EXTRAS), ("tests", EXTRAS)],
)
def test_every_import_is_declared(folder, extras):
    required = [*PROJECT["dependencies"], *(name for extra in extras for name in EXTRAS[extra])]
    declared = {parts(r.partition(";")[0])[0] for r in required}
    # Files of a folder that import each other, and a module that a test writes.
    files = [*(ROOT / "scripts").rglob("*"), *(ROOT / "examples").glob("*.py")]
    own = {path.stem.replace("_", "-") for path in files}
    own |= {"minigpt", "tests", "scripts", "a-later-module"}
    # Notebooks have IPython.
    own |= {"ipykernel"} if folder == "minigpt" else set()
    imported = {
        name: str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*.py")
        for name in imported_distributions(path)
    }
    assert {n: path for n, path in imported.items() if n not in declared | own} == {}
