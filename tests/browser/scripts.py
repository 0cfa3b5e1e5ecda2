"""The engine and its JavaScript in a page without the rest: the page's own scripts are one closure."""

import base64
from pathlib import Path

import minigpt
from tests.browser.tabs import Browser, Tab

_PACKAGE = Path(minigpt.__file__).parent
_SCRIPTS = [
    _PACKAGE / "targets" / "html" / "page" / f"{name}.js"
    for name in ("engine", "decoding", "model")
]
_ENGINE = _PACKAGE / "targets" / "gguf" / "engine" / "engine.wasm"


def open_model(browser: Browser, file: Path) -> Tab:
    """Returns a page whose global `model` is the `Model` of a portable file."""
    tab = browser.open("about:blank")
    sources = "\n".join(path.read_text(encoding="utf-8") for path in _SCRIPTS)
    parts = (base64.b64encode(path.read_bytes()).decode() for path in (_ENGINE, file))
    tab.evaluate(
        f"""async (module, file) => {{
          "use strict";
          {sources}
          const bytes = [module, file].map((part) => Uint8Array.from(atob(part), (c) => c.charCodeAt(0)));
          const engine = new Engine(await WebAssembly.compile(bytes[0]), bytes[1].length);
          engine.write(bytes[1]);
          engine.open([]);
          globalThis.model = new Model(engine);
        }}""",
        *parts,
    )
    return tab
