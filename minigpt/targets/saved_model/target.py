"""The SavedModel as an export."""

from pathlib import Path

from minigpt.targets.opened import Opened
from minigpt.targets.targets import ExportSource, Target, WeightsType


class SavedModel(Target):
    """A folder that maps text to text, for programs that have TensorFlow and do not have minigpt."""

    name = "saved_model"
    is_folder = True
    keeps_precision = True

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.saved_model.modules import build_text_module

        build_text_module(source.model, source.tokenizer).save(path)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return (path / "saved_model.pb").is_file()

    def open(self, path: Path) -> Opened:
        from minigpt.targets.saved_model.reading import open_saved_model

        return open_saved_model(path)
