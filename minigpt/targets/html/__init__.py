"""The page of a model as an export."""

from pathlib import Path

from minigpt.targets.gguf.target import Gguf
from minigpt.targets.targets import ExportSource, WeightsType


class Html(Gguf):
    """A page, which holds a portable file and the engine; see docs/model-page.md."""

    name = "html"
    holds_text = True

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.html.model_page import training_text, write_page

        text = training_text(source.run) if source.with_text else None
        write_page(source.run, path, weights, text)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return beginning.lower().startswith(b"<!doctype html")
