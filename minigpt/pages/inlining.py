"""One HTML file: a template with its style, script and data inlined, under a content security policy."""

import base64
import functools
import hashlib
import html
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minigpt.environment import printable

# Styles and scripts of all pages.
SHARED = Path(__file__).parent / "shared"
# Base64 characters in an element. A multiple of 4: every element is decoded alone.
_PART_CHARACTERS = 4 * 2**20


def template(title: str, *folders: Path, runs_engine: bool = False) -> tuple[str, str]:
    """Returns the page before and after its data.

    Args:
      title: any text.
      folders: contain *.css and *.js in the order of the folders; the last one has page.html, and main.js,
        which comes last.
      runs_engine: whether the page may run WebAssembly and a worker made of its own script.
    """
    before, between, after = _parts(folders, runs_engine)
    return f"{before}<title>{html.escape(printable(title))}</title>{between}", after


@functools.cache
def _parts(folders: tuple[Path, ...], runs_engine: bool) -> tuple[str, str, str]:
    """Returns the page before its title, from there to its data, and after its data."""
    style = "\n".join(_contents(folders, "*.css"))
    scripts = "\n".join(_contents(folders, "*.js"))
    script = f'(() => {{\n"use strict";\n{scripts}}})();\n'
    page = (folders[-1] / "page.html").read_text(encoding="utf-8")
    policy = _policy(style, script, runs_engine)
    contents = {
        "policy": f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "style": f"<style>{style}</style>",
        "script": f"<script>{script}</script>",
    }
    for name in ("title", "data", *contents):
        placeholder = f"<!-- {name} -->"
        assert page.count(placeholder) == 1, f"{placeholder} should be in page.html once"
        page = page.replace(placeholder, contents.get(name, placeholder))
    before, rest = page.split("<!-- title -->")
    between, after = rest.split("<!-- data -->")
    return before, between, after


def _contents(folders: tuple[Path, ...], pattern: str) -> list[str]:
    paths = [path for folder in folders for path in sorted(folder.glob(pattern))]
    paths.sort(key=lambda path: path.name == "main.js")
    return [path.read_text(encoding="utf-8") for path in paths]


def _policy(style: str, script: str, runs_engine: bool) -> str:
    """Returns a policy under which nothing can be loaded and only the page's own script runs."""
    # WebAssembly counts as a script, and the worker is made of the page's own.
    wasm, worker = (" 'wasm-unsafe-eval'", "; worker-src blob:") if runs_engine else ("", "")
    return (
        f"default-src 'none'; script-src '{_digest(script)}'{wasm}; style-src '{_digest(style)}'; "
        f"img-src data:; base-uri 'none'; form-action 'none'{worker}"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def json_element(identifier: str, value: Any) -> str:
    """Returns an element with JSON. No text in it can end the element: there is no "<"."""
    text = json.dumps(value, allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{identifier}">{text}</script>\n'


def data_elements(kind: str, name: str, content: Path | bytes) -> Iterator[str]:
    """Yields elements of a class with the bytes of a file in base64; `name` is the attribute data-file."""
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
        while part := file.read(_PART_CHARACTERS // 4 * 3):
            yield (
                f'<script type="text/plain" class="{kind}" data-file="{name}" data-size="{size}">'
                f"{base64.b64encode(part).decode()}</script>\n"
            )
