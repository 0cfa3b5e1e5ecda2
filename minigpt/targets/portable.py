"""The portable file and the page, which are made of a checkpoint."""

from pathlib import Path
from typing import Any

from minigpt.pages.model_page import write_page
from minigpt.targets.gguf.run_file import write_run_file
from minigpt.targets.source import ExportSource


def write_gguf(source: ExportSource, path: Path, weights: Any) -> None:
    """Writes a portable file; see docs/portable-file.md."""
    write_run_file(source.run, path, weights)


def write_html(source: ExportSource, path: Path, weights: Any) -> None:
    """Writes a page; see docs/model-page.md."""
    write_page(source.run, path, weights)
