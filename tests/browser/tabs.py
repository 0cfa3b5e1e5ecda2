"""A page in a browser, for tests that run in Chromium and in Firefox."""

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any


class Tab(ABC):
    """An open page.

    Attributes:
      messages: what the page has written to the console, and errors that nothing caught.
      requests: the addresses that the page and its workers have requested; the page's own is the first.
    """

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.requests: list[str] = []

    def evaluate(self, function: str, *arguments: Any) -> Any:
        """Calls a JavaScript function, which may be asynchronous, with JSON values.

        Returns:
          What it returns, as JSON represents it.
        """
        values = ", ".join(json.dumps(argument) for argument in arguments)
        # A string: browsers' protocols take long for large arrays.
        text = self.run(f"(async () => JSON.stringify((await ({function})({values})) ?? null))()")
        return json.loads(text)

    def generate(self, prompt: str, **options: Any) -> dict[str, Any]:
        """Calls `window.minigpt.generate`; what it gives to `onText` must be its text.

        Returns:
          Its result.
        """
        result, pieces = self.evaluate(
            """async (options) => {
              const pieces = [];
              const onText = (text) => pieces.push(text);
              return [await minigpt.generate({ ...options, onText }), pieces];
            }""",
            {"prompt": prompt, **options},
        )
        assert "".join(pieces) == result["text"] and "" not in pieces
        return result

    def text(self, selector: str) -> str:
        return self.evaluate("(selector) => document.querySelector(selector).textContent", selector)

    def open_parts(self) -> None:
        """Opens what a page opens after a click."""
        self.evaluate(
            "() => { for (const part of document.querySelectorAll('details')) part.open = true; }"
        )

    def wait_for(self, condition: str, *arguments: Any) -> Any:
        """Waits until a function of JavaScript returns something that is true, and returns it."""
        return self.evaluate(
            f"""async (...values) => {{
              const condition = {condition};
              for (let tries = 0; tries < 600; tries++) {{
                const found = await condition(...values);
                if (found) return found;
                await new Promise((resolve) => setTimeout(resolve, 50));
              }}
              throw new Error("waited 30 seconds in vain");
            }}""",
            *arguments,
        )

    @abstractmethod
    def run(self, expression: str) -> str:
        """Evaluates an expression whose value is a promise of a string."""

    @abstractmethod
    def open(self, address: str) -> None:
        """Goes to an address, and waits for its load event."""

    @abstractmethod
    def press(self, key: str, times: int = 1) -> None:
        """Presses a key, "Tab" or "Control+Enter", on the element with the focus."""

    @abstractmethod
    def type(self, text: str) -> None:
        """Types a text on the element with the focus."""

    @abstractmethod
    def click(self, selector: str) -> None:
        """Clicks an element."""

    @abstractmethod
    def close(self) -> None:
        """Closes the page."""


class Browser(ABC):
    """A browser."""

    name: str

    @abstractmethod
    def new_tab(self, width: int, height: int, dark: bool, offline: bool, motion: bool) -> Tab:
        """Returns an empty page."""

    @abstractmethod
    def close(self) -> None:
        """Ends the browser."""

    def open(
        self,
        page: Path | str,
        *,
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        offline: bool = True,
        motion: bool = False,
    ) -> Tab:
        """Opens a file in a new page, without a network unless `offline` is false.

        A reader who prefers reduced motion, as without `motion`, gets texts at once.
        """
        tab = self.new_tab(width, height, dark, offline, motion)
        tab.open(page.absolute().as_uri() if isinstance(page, Path) else page)
        return tab
