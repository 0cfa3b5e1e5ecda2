"""Chromium, driven by Playwright."""

from typing import Any

import pytest

from tests.browser.programs import browser_path
from tests.browser.tabs import Browser, Tab

_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Chromium(Browser):
    """The system's Chromium.

    Args:
      proxy: the address of a proxy that every request goes to.
    """

    name = "chromium"

    def __init__(self, proxy: str) -> None:
        path = browser_path("chromium")
        reason = "needs playwright: pip install -e '.[browser]'"
        playwright = pytest.importorskip("playwright.sync_api", reason=reason)
        self.manager = playwright.sync_playwright().start()
        self.browser = self.manager.chromium.launch(
            executable_path=path,
            args=_ARGUMENTS,
            proxy={"server": proxy, "bypass": "<-loopback>"},
        )

    def new_tab(self, width: int, height: int, dark: bool, offline: bool, motion: bool) -> Tab:
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            offline=offline,
            reduced_motion="no-preference" if motion else "reduce",
        )
        return ChromiumTab(context.new_page())

    def close(self) -> None:
        self.browser.close()
        self.manager.stop()


class ChromiumTab(Tab):
    def __init__(self, page: Any) -> None:
        super().__init__()
        self.page = page
        page.set_default_timeout(120_000)
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def run(self, expression: str) -> str:
        return self.page.evaluate(expression)

    def open(self, address: str) -> None:
        self.page.goto(address)

    def press(self, key: str, times: int = 1) -> None:
        for _ in range(times):
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.insert_text(text)

    def click(self, selector: str) -> None:
        self.page.click(selector)

    def close(self) -> None:
        self.page.context.close()
