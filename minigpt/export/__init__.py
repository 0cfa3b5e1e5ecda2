"""What a trained model becomes for other programs; one target a file."""

from pathlib import Path

from minigpt.export.huggingface import export_huggingface
from minigpt.export.keras_file import export_keras
from minigpt.export.saved_model import export_saved_model
from minigpt.run import Run

FORMATS = {
    "saved_model": export_saved_model,
    "keras": export_keras,
    "huggingface": export_huggingface,
}


def export_run(run: Run, format: str, folder: Path) -> None:
    """Writes a run's best model to a new folder in one of `FORMATS`.

    Raises:
      UserError: if the run has no model, or the folder cannot be written.
    """
    FORMATS[format](run.load_model(), run.load_tokenizer(), folder)
