"""Export: writes a trained model for other programs; one format per file."""

from minigpt.export.exporting import export_run
from minigpt.export.formats import FORMATS
from minigpt.export.saved_model import export_saved_model

__all__ = ["FORMATS", "export_run", "export_saved_model"]
