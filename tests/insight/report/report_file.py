"""A report as a file."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


class ReportFile(HTMLParser):
    """The elements of a report.

    Attributes:
      names: the names of all elements.
      policy: the content security policy.
      title: the text of the title.
      content: the data.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names: list[str] = []
        self.policy = self.title = self._data = ""
        self._inside: str | None = None
        self.feed(path.read_text(encoding="utf-8"))
        self.content: dict[str, Any] = json.loads(self._data)

    @property
    def run(self) -> dict[str, Any]:
        """The facts of the only run."""
        (run,) = self.content["runs"]
        return run

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        attributes = dict(attrs)
        self._inside = attributes.get("id") or tag
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "report":
            self._data += data
        elif self._inside == "title":
            self.title += data
