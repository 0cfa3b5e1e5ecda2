"""The page of the served model."""

import tempfile
import threading
from pathlib import Path


class ServedPage:
    """The page, which is written when it is asked for the first time.

    Args:
      file: the portable file that is served.
      run: the directory of its run; None if there is only the file.
      folder: where to write it.
    """

    def __init__(self, file: Path, run: Path | None, folder: Path) -> None:
        self._file, self._run, self._folder = file, run, folder
        self._lock = threading.Lock()

    def path(self) -> Path:
        """Returns the file with the page.

        Raises:
          UserError, OSError: the run or the portable file is not there any more.
        """
        page = self._folder / "page.html"
        with self._lock:
            if not page.exists():
                with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as new:
                    path = Path(new.name)
                try:
                    self._write(path)
                    path.rename(page)
                finally:
                    path.unlink(missing_ok=True)
        return page

    def _write(self, path: Path) -> None:
        # Importing this takes as long as starting the server.
        from minigpt.runs.run import Run
        from minigpt.targets.html.writing import write_file_page, write_page

        if self._run is None:
            write_file_page(self._file, path)
        else:
            write_page(Run(self._run), path)
