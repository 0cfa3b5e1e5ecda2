"""The page of a model as an export."""

import base64
import re
import tempfile
from pathlib import Path

from minigpt.errors import UserError
from minigpt.targets.gguf.target import Gguf
from minigpt.targets.targets import ExportSource, Opened, WeightsType

_MODEL = re.compile(
    r'<script type="text/plain" class="model" data-file="main"[^>]*>([^<]*)</script>'
)


class Html(Gguf):
    """A page, which holds a portable file and the engine; see docs/model-page.md."""

    name = "html"
    holds_text = True

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.html.writing import training_text, write_page

        write_page(
            source.run, path, weights, training_text(source.run) if source.with_text else None
        )

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return beginning.lower().startswith(b"<!doctype html")

    def open(self, path: Path) -> Opened:
        parts = _MODEL.findall(path.read_text(encoding="utf-8"))
        if not parts:
            raise UserError(f"{path}: has no model; should be a page that `minigpt export` wrote")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.gguf"
            file.write_bytes(b"".join(map(base64.b64decode, parts)))
            try:
                return super().open(file)
            except UserError as error:
                problem = str(error).removeprefix(f"{file}: ")
                raise UserError(f"{path}: its model: {problem}") from None
