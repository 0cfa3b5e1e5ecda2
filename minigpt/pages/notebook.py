"""A page in the output of a notebook's cell. Imports neither TensorFlow nor IPython."""

import html
from pathlib import Path

from minigpt.errors import UserError, as_path


class InlinePage:
    """An HTML file that minigpt has written, for a notebook: the last value of a cell is shown.

    The output contains the file, because Colab gives the browser no files. It is sandboxed: its script
    cannot reach the notebook.

    Args:
      path: the file, such as `run.report_file`.
      height: in pixels.
    Raises:
      UserError: the file cannot be read.
    """

    def __init__(self, path: str | Path, height: int = 640) -> None:
        try:
            self.html = as_path("path", path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: cannot be read as a page: {error}") from error
        self.height = height

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: {self.height}px; border: 1px solid #8888"></iframe>'
        )
