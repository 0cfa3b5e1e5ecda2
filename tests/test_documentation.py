"""README and docs/: links that resolve, files that exist, and every public name."""

import ast
import hashlib
import inspect
import json
import re
from pathlib import Path
from typing import get_overloads

import pytest

import minigpt
from minigpt.cli.sampling_options import option_names
from minigpt.config.sampling import DISTRIBUTION, SETTINGS
from minigpt.generation.sampling import SamplingSettings
from minigpt.serving.schema import CompletionBody

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "data/README.md",
    ROOT / "examples/README.md",
]
# Folders that only an installed package has.
INSTALLED = {
    "minigpt/data/stories.txt.zst",
    "minigpt/data/dialogues.jsonl.zst",
    "minigpt/configs",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page):
    targets = re.findall(r"\]\(([\w./-]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_sections_resolve(page):
    links = re.findall(r"\]\(([\w./-]*)#([^)]*)\)", page.read_text(encoding="utf-8"))
    anchors = {target: anchors_of(page.parent / target if target else page) for target, _ in links}
    assert [link for link in links if link[1] not in anchors[link[0]]] == []


def anchors_of(page: Path) -> list[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    anchors: list[str] = []
    used: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} +(.*?)(?: +#+)?$", text, re.M):
        # The text of a link, without markup.
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        plain = re.sub(r"[^\w\- ]", "", heading.replace("*", "").lower()).replace(" ", "-")
        anchor = plain
        while anchor in anchors:
            used[plain] = used.get(plain, 0) + 1
            anchor = f"{plain}-{used[plain]}"
        anchors.append(anchor)
    return anchors


def test_anchors_are_those_of_github(tmp_path):
    """The expected anchors are those that github-slugger 2.0.0 (npm) prints for these headings."""
    page = tmp_path / "page.md"
    page.write_text(
        "# Hello `World`\n\n## a_b -- c/d? (1.5 × 2)\n\n```sh\n# a comment\n```\n\n"
        "## [The link](x.md) and *emphasis*\n\n## Привет\n\n## foo\n\n## foo\n\n## foo-1\n\n## foo ##\n"
    )
    assert anchors_of(page) == [
        "hello-world",
        "a_b----cd-15--2",
        "the-link-and-emphasis",
        "привет",
        "foo",
        "foo-1",
        "foo-1-1",
        "foo-2",
    ]


@pytest.mark.parametrize(
    "page",
    # The pages about extensions name files that do not exist yet.
    [page for page in PAGES if not page.name.startswith("adding-")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_named_files_exist(page):
    """`minigpt/...`, `tests/...`, `docs/...`, `scripts/...` and `configs/...` in backquotes."""
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:minigpt|tests|docs|scripts|configs)/[\w./-]+)`", text)
    missing = [name for name in named if not (ROOT / name).exists() and name not in INSTALLED]
    assert not missing


def lines_of(file: str) -> dict[str, int]:
    """The names that a Python file defines, "Class.method" included, and how many lines each has."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found: dict[str, int] = {}
    for node in tree.body:
        for name in defined_by(node):
            found[name] = node.end_lineno - node.lineno + 1
            for part in node.body if isinstance(node, ast.ClassDef) else ():
                lines = part.end_lineno - part.lineno + 1
                found |= {f"{name}.{own}": lines for own in defined_by(part)}
    return found


def defined_by(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_the_walk_names_passages_that_can_be_read_in_an_hour():
    text = (ROOT / "docs" / "how-it-is-built.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| `([\w/.]+)` \| (.*?) \|", text, re.M)
    lines = [lines_of(file)[name] for file, names in rows for name in re.findall(r"`(.*?)`", names)]
    stated = int(re.search(r"have about ([\d,]+) lines", text)[1].replace(",", ""))
    assert len(rows) == 13 and stated <= 1500
    assert abs(sum(lines) - stated) < 75, sum(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_in_files_exist(page):
    """ "`Name` in `minigpt/file.py`", also of several names."""
    named = re.findall(
        r"((?:`[\w.]+`(?:, | and )?)+)(?: in| of) `((?:minigpt|tests|scripts)/[\w/]+\.py)`",
        page.read_text(encoding="utf-8"),
    )
    names = [(name, file) for listed, file in named for name in re.findall(r"`(.*?)`", listed)]
    missing = [(name, file) for name, file in names if name not in lines_of(file)]
    assert not missing


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 170


def test_every_public_name_is_documented():
    text = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
    missing = [name for name in minigpt.__all__ if not re.search(rf"minigpt\.{name}\b", text)]
    assert not missing


def names_in_table(page: str, heading: str) -> list[str]:
    """The names in backquotes in the first column of the tables below a heading, without arguments."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    section = text.split(f"\n{heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.M)
    return [name for cell in cells for name in re.findall(r"`([\w-]+)", cell)]


def test_sampling_settings_in_documents_are_those_of_the_table():
    options = set(option_names([s for s in SETTINGS if s.role != "training"]).values())
    listed = names_in_table("guide.md", "## How the next token is chosen")
    # The length of a text does not choose a token.
    assert options - {"--max-new-tokens"} == set(listed) & options
    completion = names_in_table("server.md", "## Fields of a completion")
    assert sorted(completion) == sorted(CompletionBody.model_fields)
    inputs = [s.name for s in SETTINGS if "onnx" in s.formats]
    assert names_in_table("onnx.md", "## Text to text")[: len(inputs) + 1] == ["prompt", *inputs]
    out_of_range = re.findall(r"\w+", SamplingSettings.__doc__)
    assert {setting.name for setting in DISTRIBUTION} <= set(out_of_range)


def test_documented_signatures_are_those_of_the_code():
    """Those in backquotes or bold on the page about Python."""
    text = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
    owners = [minigpt, minigpt.TextModel, minigpt.TranslationModel, minigpt.Run]
    found = set()
    for name, arguments in re.findall(r"[`*](?:minigpt\.)?(\w+)\(([^`]*?)\)[`* ]", text):
        functions = [getattr(owner, name) for owner in owners if hasattr(owner, name)]
        # `TextGenerator` can be called in two ways.
        classes = filter(inspect.isclass, list(functions))
        functions += [call for class_ in classes for call in get_overloads(class_.__init__)]
        signatures = [signature_of(function) for function in functions]
        assert not signatures or f"({arguments})" in signatures, (name, signatures)
        found.add(name)
    functions = {n for n in minigpt.__all__ if inspect.isfunction(getattr(minigpt, n))}
    assert functions | {"TextGenerator", "Run", "generate", "stream", "translate"} <= found


def signature_of(function) -> str:
    """Returns the arguments without annotations and `self`."""
    parameters = {
        name: parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    }
    return str(inspect.Signature(list(parameters.values()))).replace("'", '"')


def test_the_pictures_are_of_one_run():
    """`make docs-images` writes all of them and the list at once."""
    folder = ROOT / "docs" / "images"
    listed = json.loads((folder / "images.json").read_text(encoding="utf-8"))["sha256"]
    # A picture of layers, drawn by Keras.
    found = {path.name for path in folder.iterdir()} - {"images.json", "model.png"}
    assert found == set(listed)
    for name, digest in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
