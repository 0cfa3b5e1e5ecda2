"""A hook of MkDocs: pages that are generated, links to files outside docs/, folders in the navigation."""

import os
import posixpath
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import griffe
import typer
from mike.mkdocs_utils import docs_version_var
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.cli import get_docs_for_click
from typer.main import get_command

import minigpt
from minigpt.cli.program import build_app
from minigpt.runs.layout import model_path
from minigpt.targets.html.file_page import write_file_page

ROOT = Path(__file__).resolve().parents[1]
# The page of the base model, which learns from a text that is pasted.
TRY_IT = "try-it.html"
# The last link of its navigation, and the link to the site. A saved page has it, too, and hides it.
ABOUT = '<li><a href="#about">About</a></li>'
BACK = '<li class="of-site"><a href="index.html">Documentation</a></li>'
# Files outside docs/ that are pages of the site.
OUTSIDE = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
# The target of a link or picture in Markdown. Others have a scheme, or are sections of the same page.
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^()\s#]+)(?=#[^()\s]*\)|\))")


class Sections(griffe.Extension):
    """Puts the empty line before "Returns:" and "Raises:" that griffe needs."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Changes the docstring before it is parsed."""
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"\n(?=(Args|Returns|Raises|Yields):\n)", "\n\n", obj.docstring.value
            )


def commands_page() -> str:
    """Returns the page of the program: the usage, arguments and options of each command."""
    program = get_command(build_app())
    context = typer.Context(program, info_name="minigpt")
    for command in getattr(program, "commands").values():  # noqa: B009
        # A list of commands has the first sentence whole, in one line.
        command.short_help = re.split(r"(?<=\.)\s", (command.help or "").replace("\n", " "))[0]
    text = get_docs_for_click(obj=program, ctx=context, name="minigpt", title="Commands")
    first = "Here you can look up what each command takes, as `minigpt COMMAND --help` prints it."
    return text.replace("\n", f"\n\n{first}\n", 1)


def python_reference_page() -> str:
    """Returns the page of the public names, which mkdocstrings fills with their docstrings.

    The order of the names and the methods of the classes are those of docs/python-api.md.
    """
    described = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
    members = sorted(set(re.findall(r"(\w+)\(", " ".join(re.findall(r"`(.*?)`", described)))))
    mentioned = dict.fromkeys(re.findall(r"minigpt\.(\w+)\b", described))
    text = (
        "# Python reference\n\nHere you can look up the arguments, results, shapes and errors of each "
        "public name, from its docstring. [Python API](python-api.md) shows how to use them together.\n\n"
    )
    for name in mentioned:
        if name in minigpt.__all__:
            text += f"::: minigpt.{name}\n    options:\n      members: {members}\n\n"
    return text


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Sets the repository's address, and replaces the folders in the navigation by their files.

    A folder that does not exist is left out.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.repo_url = project["urls"]["Repository"]
    # Each page asks for the list of versions, which exists only where mike has written it.
    if docs_version_var not in os.environ:
        config.extra.pop("version", None)
    sections: list[Any] = []
    for section in config.nav or []:
        ((title, content),) = section.items()
        if isinstance(content, str) and content.endswith("/"):
            folder = Path(config.docs_dir, content)
            content = sorted(f"{content}{path.name}" for path in folder.glob("*.md"))
            # The first page of the section.
            content.sort(key=lambda name: not name.endswith("/index.md"))
        if content:
            sections.append({title: content})
    config.nav = sections
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages, and those outside docs/."""
    pages = {"commands.md": commands_page(), "python-reference.md": python_reference_page()}
    pages |= {uri: (ROOT / path).read_text(encoding="utf-8") for uri, path in OUTSIDE.items()}
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, TRY_IT)
        write_file_page(model_path("english"), page)
        content = page.read_text(encoding="utf-8").replace(ABOUT, ABOUT + BACK, 1)
        files.append(File.generated(config, TRY_IT, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository lead to their page in the site, or else to the repository."""
    uri = page.file.src_uri
    folder = posixpath.dirname(OUTSIDE.get(uri, f"docs/{uri}"))

    def site_target(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        in_site = {path: uri for uri, path in OUTSIDE.items()}.get(path)
        if path.startswith("docs/"):
            in_site = path.removeprefix("docs/")
        if in_site:
            return posixpath.relpath(in_site, posixpath.dirname(uri) or ".")
        # What does not exist stays as it is: the strict build names it.
        exists = (ROOT / path).exists() and not path.startswith("..")
        return f"{str(config.repo_url).rstrip('/')}/blob/main/{path}" if exists else match[1]

    return LINK.sub(site_target, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Removes what makes the theme ask the repository's host for its number of stars."""
    return output.replace(' data-md-component="source"', "")


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """The same in 404.html."""
    return output.replace(' data-md-component="source"', "")
