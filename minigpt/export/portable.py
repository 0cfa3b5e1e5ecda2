"""The portable file and the page, which are made of a checkpoint."""

from pathlib import Path
from typing import Any

from minigpt.export.source import ExportSource
from minigpt.pages.model_page import write_page
from minigpt.portable.run_file import write_run_file


def write_gguf(source: ExportSource, path: Path, weights: Any) -> None:
    """Writes a portable file; see docs/portable-file.md."""
    write_run_file(source.run, path, weights)


def write_html(source: ExportSource, path: Path, weights: Any) -> None:
    """Writes a page; see docs/model-page.md."""
    write_page(source.run, path, weights)
