"""README and docs/: links that resolve, files that exist, and every public name."""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.main import get_command

import minigpt
import minigpt.layers
from minigpt.cli.command import names_of_options
from minigpt.cli.program import COMMANDS, build_app
from minigpt.config.sampling import DISTRIBUTION, SETTINGS
from minigpt.generation.sampling import SamplingSettings
from minigpt.serving.bodies import CompletionBody

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "data/README.md",
    ROOT / "examples/README.md",
]
HISTORY = ("CHANGELOG.md", "EXPERIMENTS.md")
# Folders that only an installed package has.
INSTALLED = {
    "minigpt/data/stories.txt.zst",
    "minigpt/data/dialogues.jsonl.zst",
    "minigpt/configs",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page):
    links = re.findall(r"\]\(([\w./-]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    assert [path for path, _ in links if not (page.parent / path).exists()] == []
    anchors = {path: anchors_of(page.parent / path if path else page) for path, a in links if a}
    assert [(path, a) for path, a in links if a and a not in anchors[path]] == []


# Sections of the guide when it was one page.
FORMER = """
words install without-tensorflow in-a-container train your-own-text plans
configurations-and-settings sample how-the-next-token-is-chosen texts-of-a-given-form sweeps
the-run-directory list-runs resume evaluate-and-tokenize memorization
gpt-2-and-qwen3-import-fine-tune-export translate the-report the-doctor tensorboard
the-portable-file the-page the-server the-exported-model
"""


def test_the_first_page_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_former_sections_of_the_guide_lead_to_their_pages():
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    found = re.findall(r'<a id="([\w-]+)"></a>\[.*?\]\(([\w-]+\.md)(?:#([\w-]+))?\)', text)
    assert sorted(former for former, *_ in found) == sorted(FORMER.split())
    for former, page, anchor in found:
        # Without an anchor, the title of the page is the former section.
        named = anchor or anchors_of(ROOT / "docs" / page)[0]
        assert named == former and former in anchors_of(ROOT / "docs" / page)


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


@pytest.mark.parametrize(
    "page",
    # The pages about extensions name files that do not exist yet.
    [page for page in PAGES if not page.name.startswith("adding-")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_named_files_exist(page):
    """`minigpt/...`, `tests/...`, `docs/...`, `scripts/...` and `configs/...` in backquotes.

    Scripts that are gone are named with the commit that has them, or in HISTORY.
    """
    text = page.read_text(encoding="utf-8")
    folders = "minigpt|tests|docs|configs" + ("" if page.name in HISTORY else "|scripts")
    named = re.findall(rf"`((?:{folders})/[\w./-]+)`(?!\s(?:at|of)\scommit)", text)
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


def road(heading: str) -> tuple[list[tuple[str, str]], set[str]]:
    """The numbered rows of a section of "What is inside", file and passages; all files that it names."""
    text = (ROOT / "docs" / "how-it-is-built.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {heading}")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \| (.*?) \|", section, re.M)
    return rows, set(re.findall(r"minigpt/[\w/]+\.py", section))


def entered(folder: Path, *command: str) -> list[str]:
    """The files of minigpt in which a command enters a function."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MINIGPT_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.walk", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\nentered\n")[1].split()


def test_the_road_from_a_text_to_the_loss_is_that_of_the_document(tmp_path):
    rows, named = road("From a text to the loss")
    assert len(rows) <= 24
    text = "\n\n".join(f"Ana sat on hill {i} and ate {i * 7 % 11} figs." for i in range(2000))
    (tmp_path / "book.txt").write_text(text)
    settings = ("training.jit_compile=false", "model.num_layers=1", "model.embed_dim=32")
    changes = (part for setting in settings for part in ("--set", setting))
    files = entered(tmp_path, "train", "--text", "book.txt", *changes)
    assert set(files) == named
    lines = [lines_of(file)[name] for file, names in rows for name in re.findall(r"`(.*?)`", names)]
    page = (ROOT / "docs" / "how-it-is-built.md").read_text(encoding="utf-8")
    stated = int(re.search(r"about ([\d,]+) lines", page)[1].replace(",", ""))
    assert stated <= 1550 and abs(sum(lines) - stated) < 25, sum(lines)


def test_the_road_from_a_prompt_to_a_text_is_that_of_the_document(tmp_path):
    rows, _ = road("From a prompt to a text")
    shutil.copytree(ROOT / "tests/fixtures/runs/tiny", tmp_path / "run")
    minigpt.open_model(tmp_path / "run")  # Writes model.gguf.
    files = entered(tmp_path, "sample", "run", "--prompt", "Ana", "--seed", "0")
    assert [file for file, _ in rows] == files and len(files) <= 14


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
    options = set(
        names_of_options([s for s in SETTINGS if s.role in ("distribution", "text")]).values()
    )
    listed = names_in_table("sampling.md", "## How the next token is chosen")
    # The length of a text does not choose a token.
    assert options - {"--max-new-tokens"} == set(listed) & options
    completion = names_in_table("server.md", "## Fields of a completion")
    assert sorted(completion) == sorted(CompletionBody.model_fields)
    out_of_range = re.findall(r"\w+", SamplingSettings.__doc__)
    assert {setting.name for setting in DISTRIBUTION} <= set(out_of_range)


def test_documented_signatures_are_those_of_the_code():
    """Those in backquotes or bold on the page about Python."""
    text = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
    owners = [minigpt, minigpt.TextModel, minigpt.TranslationModel, minigpt.Run]
    found = set()
    for name, arguments in re.findall(r"[`*](?:minigpt\.)?(\w+)\(([^`]*?)\)[`* ]", text):
        functions = [getattr(owner, name) for owner in owners if hasattr(owner, name)]
        if name == "TextGenerator":  # It can be called in two ways.
            generator = minigpt.TextGenerator
            functions = [generator._from_tutorial, generator._from_tokenizer]
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


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "coming-from").glob("*.md")), ids=str)
def test_names_for_users_of_other_programs_exist(page):
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    program = get_command(build_app()).commands
    options = {name for command in program.values() for p in command.params for name in p.opts}
    # The first column has the names of the other program.
    cells = re.findall(r"^\|.*? \| (.*) \|$", page.read_text(encoding="utf-8"), re.M)
    code = re.findall("`(.*?)`", " ".join(cells))
    assert len(code) > 20
    for name in code:
        # Not `model.chat(messages)` and `model.keras`.
        setting = re.match(r"(data|tokenizer|model|training|sampling)\.\w+(?=[ =]|$)", name)
        is_file = name.endswith((".gguf", ".json", ".keras"))
        assert is_file or not setting or f"`{setting[0]}`" in settings, name
        assert set(re.findall(r"(?<!\S)--[a-z-]+", name)) <= options, name
        for command in re.findall(r"^minigpt ([a-z]+)", name):
            assert command in program, name
        for module, public in re.findall(r"\bminigpt\.(layers\.)?(\w+)", name):
            assert hasattr(minigpt.layers if module else minigpt, public), name


@pytest.fixture
def docs_site(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return pytest.importorskip("docs_site", reason="needs the extra docs", exc_type=ImportError)


def test_folders_in_the_navigation(docs_site, tmp_path):
    """Their pages are taken, the index first; without the folder, nothing is."""
    (tmp_path / "folder").mkdir()
    for name in ("1-pairs", "2-attention", "index"):
        (tmp_path / "folder" / f"{name}.md").write_text("# Title")
    nav = [{"A": ["a.md"]}, {"B": "folder/"}, {"C": "none/"}]
    config = SimpleNamespace(nav=nav, docs_dir=str(tmp_path), extra={})
    pages = ["folder/index.md", "folder/1-pairs.md", "folder/2-attention.md"]
    assert docs_site.on_config(config).nav == [{"A": ["a.md"]}, {"B": pages}]


def test_the_site(tmp_path):
    """It builds without warnings, its links lead somewhere, and it loads nothing from other hosts."""
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    site = Path(os.environ.get("MINIGPT_SITE", tmp_path))
    if site == tmp_path:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    assert {"index.html", "commands.html", "nanogpt.html"} <= {path.name for path in pages}
    for path, page in pages.items():
        assert not re.findall(r'<(?:script|img|source|iframe)[^>]*(?:src|srcset)="https?:', page)
        assert not re.findall(r'<link[^>]*rel="(?:stylesheet|icon|preconnect)"[^>]*"https?:', page)
        # The theme asks the repository's host for its number of stars.
        assert 'data-md-component="source"' not in page
        # The links of the first begin at the address of the site; the page of the base has one to the site.
        if path.name in ("404.html", "try-it.html"):
            continue
        targets = re.findall(r' (?:href|src|srcset)="([^"#:?]+)["#]', page)
        assert targets and not [name for name in targets if not (path.parent / name).exists()]
    assert '<a href="index.html">Documentation</a>' in pages[site / "try-it.html"]
    assert 'href="contributing.html#after-an-addition"' in pages[site / "adding-to-the-model.html"]
    (address,) = re.findall('^Repository = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert f'{address}/blob/main/examples/keras_tutorial.py"' in pages[site / "python-api.html"]
    reference = pages[site / "python-reference.html"]
    assert all(f'id="minigpt.{name}"' in reference for name in minigpt.__all__)
    commands = pages[site / "commands.html"]
    assert all(f"minigpt {name}</code>" in commands for name in COMMANDS)
