"""What a reader does on the page, by the ids of page.html."""

from pathlib import Path
from typing import Any

from tests.browser.tabs import Tab

WRITTEN = """() => document.getElementById("stop").hidden &&
  document.querySelector("#text-tokens .token") !== null"""

# The page may not fetch anything, its own blobs neither: the test keeps the one of the URL.
SAVED = """async (save) => {
  const create = URL.createObjectURL;
  let blob = null;
  URL.createObjectURL = (made) => create.call(URL, (blob = made));
  const url = await minigpt.saveUrl();
  URL.createObjectURL = create;
  return [url.startsWith("blob:"), blob.type, await blob.text()];
}"""


def wait_until_ready(tab: Tab) -> None:
    tab.wait_for("() => !document.getElementById('start').disabled")


def set_value(tab: Tab, name: str, value: Any) -> None:
    """Sets the value of a field as typing would."""
    tab.evaluate(
        """(name, value) => {
          const field = document.getElementById(name);
          field.value = String(value);
          field.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        name,
        value,
    )


def write(tab: Tab, prompt: str, **settings: Any) -> str:
    """Writes with the form: fields by their ids, "_" for "-". Returns the text of the continuation."""
    wait_until_ready(tab)
    set_value(tab, "prompt", prompt)
    for name, value in settings.items():
        set_value(tab, name.replace("_", "-"), value)
    tab.evaluate("() => document.getElementById('write-form').requestSubmit()")
    tab.wait_for(WRITTEN)
    return text_of_tokens(tab)


def controls(tab: Tab) -> list[str]:
    """The links, buttons, fields and summaries that a reader sees; not tokens and their alternatives."""
    return tab.evaluate(
        """() => Array.from(document.querySelectorAll("a[href], button, input, select, textarea, summary"))
          .filter((e) => !e.matches(".skip, .alternative"))
          .filter((e) => e.checkVisibility({ visibilityProperty: true }))
          .map((e) => `${e.localName} ${e.id} ${e.textContent}`)"""
    )


def text_of_tokens(tab: Tab) -> str:
    return tab.text("#text-tokens")


def look_at(tab: Tab, index: int) -> None:
    """Chooses a token and looks inside."""
    tab.evaluate(
        "(index) => document.querySelectorAll('#text-tokens .token')[index].click()", index
    )
    tab.evaluate(
        """() => {
          const button = document.getElementById("look-inside");
          if (button.getAttribute("aria-expanded") === "false") button.click();
        }"""
    )
    tab.wait_for(
        """() => {
          const box = document.getElementById("inside-content");
          const squares = Array.from(box.querySelectorAll(".part-button"), (button) => button.textContent);
          return !box.hidden && !box.hasAttribute("aria-busy") && !squares.includes("…");
        }"""
    )


def learn(tab: Tab, text: str, **settings: Any) -> None:
    """Learns with the form: settings by the names of `minigpt.learn`. Waits until it is done."""
    set_value(tab, "learn-text", text)
    for name, value in settings.items():
        set_value(tab, f"learn-{name}", value)
    tab.evaluate("() => document.getElementById('learn-form').requestSubmit()")
    tab.wait_for("() => document.getElementById('learn-status').textContent.startsWith('Done')")


def use_everything(tab: Tab, prompt: str) -> None:
    """Writes, looks inside, learns, plays the epochs, and opens every part of the page."""
    write(tab, prompt, seed=5)
    look_at(tab, 1)
    tab.open_parts()
    if not tab.evaluate("() => document.getElementById('learning').hidden"):
        learn(tab, f"{prompt} {prompt} {prompt}", steps=2)
    if tab.evaluate("() => document.getElementById('snapshot') !== null"):
        set_value(tab, "snapshot", 1)
        tab.wait_for(
            "() => /^Step/.test(document.querySelector('#replay [role=status]').textContent)"
        )


def saved_page(tab: Tab, path: Path) -> Path:
    """Writes what `minigpt.saveUrl` gives. Returns the path."""
    is_blob, kind, text = tab.evaluate(SAVED)
    assert is_blob and kind == "text/html"
    path.write_text(text, encoding="utf-8")
    return path
