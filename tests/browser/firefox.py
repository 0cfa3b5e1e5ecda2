"""Firefox, which Playwright cannot drive: puppeteer-core does, in a process of node (firefox.cjs)."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.browser.programs import browser_path, npm_packages
from tests.browser.tabs import Browser, Tab


class Firefox(Browser):
    """The system's Firefox.

    Args:
      proxy: the address of a proxy that every request goes to.
    """

    name = "firefox"

    def __init__(self, proxy: str) -> None:
        path, packages = browser_path("firefox"), npm_packages()
        script = Path(__file__).with_name("firefox.cjs")
        command = ["node", str(script), str(packages), path, proxy]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self.tabs: dict[int, FirefoxTab] = {}

    def call(self, method: str, **arguments: Any) -> Any:
        """Calls a function of firefox.cjs."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"method": method, **arguments}) + "\n")
        self.process.stdin.flush()
        # Events of tabs come before the answer.
        while line := self.process.stdout.readline():
            answer = json.loads(line)
            if "event" in answer:
                getattr(self.tabs[answer["tab"]], answer["event"]).append(answer["text"])
            elif "error" in answer:
                raise RuntimeError(f"Firefox: {answer['error']}")
            else:
                return answer["result"]
        raise RuntimeError("Firefox: the process of node has ended")

    def new_tab(self, width: int, height: int, dark: bool, offline: bool, motion: bool) -> Tab:
        # There is no switch for a single page: the proxy answers nothing, so it makes no difference.
        number = len(self.tabs) + 1
        tab = self.tabs[number] = FirefoxTab(self, number)
        self.call("new_tab", tab=number, width=width, height=height, dark=dark, motion=motion)
        return tab

    def close(self) -> None:
        self.call("quit")
        self.process.wait(30)


class FirefoxTab(Tab):
    def __init__(self, browser: Firefox, number: int) -> None:
        super().__init__()
        self.browser, self.number = browser, number

    def call(self, method: str, **arguments: Any) -> Any:
        return self.browser.call(method, tab=self.number, **arguments)

    def run(self, expression: str) -> str:
        return self.call("run", expression=expression)

    def open(self, address: str) -> None:
        self.call("open", address=address)

    def press(self, key: str, times: int = 1) -> None:
        for _ in range(times):
            self.call("press", keys=key.split("+"))

    def type(self, text: str) -> None:
        self.call("type", text=text)

    def click(self, selector: str) -> None:
        self.call("click", selector=selector)

    def close(self) -> None:
        self.call("close")
