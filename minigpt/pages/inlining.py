"""One HTML file: a template with its style, script and data inlined, under a content security policy."""

import base64
import hashlib
import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Base64 characters in an element. A multiple of 4: every element is decoded alone.
_PART_CHARACTERS = 4 * 2**20


def template(folder: Path, title: str) -> tuple[str, str]:
    """Returns the page before and after its data.

    Args:
      folder: contains page.html, *.css, and *.js, of which main.js comes last.
      title: the title of the page, any text.
    """
    style = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.css")))
    paths = sorted(folder.glob("*.js"), key=lambda path: (path.name == "main.js", path.name))
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    script = f'(() => {{\n"use strict";\n{scripts}}})();\n'
    page = (folder / "page.html").read_text(encoding="utf-8")
    contents = {
        "policy": f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">',
        "title": f"<title>{html.escape(title)}</title>",
        "style": f"<style>{style}</style>",
        "script": f"<script>{script}</script>",
    }
    for name, content in contents.items():
        placeholder = f"<!-- {name} -->"
        assert page.count(placeholder) == 1, f"{placeholder} should be in page.html once"
        page = page.replace(placeholder, content)
    before, after = page.split("<!-- data -->")
    return before, after


def _policy(style: str, script: str) -> str:
    """Returns a policy under which nothing can be loaded and only the page's own script runs."""
    rules = {
        "default-src": "'none'",
        # WebAssembly counts as a script.
        "script-src": f"'{_digest(script)}' 'wasm-unsafe-eval'",
        "style-src": f"'{_digest(style)}'",
        # The worker is made of the page's own script.
        "worker-src": "blob:",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in rules.items())


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def json_element(identifier: str, value: Any) -> str:
    """Returns an element with JSON. No text in it can end the element: there is no "<"."""
    text = json.dumps(value, allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{identifier}">{text}</script>\n'


def data_elements(kind: str, name: str, path: Path) -> Iterator[str]:
    """Yields elements with the bytes of a file in base64, in their order.

    Args:
      kind: the class of the elements.
      name: the attribute data-file.
      path: the file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        while part := file.read(_PART_CHARACTERS // 4 * 3):
            yield (
                f'<script type="text/plain" class="{kind}" data-file="{name}" data-size="{size}">'
                f"{base64.b64encode(part).decode()}</script>\n"
            )
