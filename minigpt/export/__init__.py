"""What a trained model becomes for other programs; one target a file."""

from collections.abc import Callable
from pathlib import Path

from minigpt.export.huggingface import export_huggingface
from minigpt.export.keras_file import export_keras
from minigpt.export.saved_model import export_saved_model as export_text_to_text
from minigpt.export.translation_saved_model import export_translation
from minigpt.models import GPT, EncoderDecoder
from minigpt.notices import deprecated_report
from minigpt.runs.run import Run
from minigpt.tokenizers import Tokenizer


def export_saved_model(model: GPT | EncoderDecoder, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes `folder` as the SavedModel of a model of this kind, whole or not at all.

    Raises:
      UserError: if there is something at `folder` already, or it cannot be written.
    """
    if isinstance(model, EncoderDecoder):
        export_translation(model, tokenizer, folder)
    else:
        export_text_to_text(model, tokenizer, folder)


FORMATS = {
    "saved_model": export_saved_model,
    "keras": export_keras,
    "huggingface": export_huggingface,
}


def export_run(
    run: Run, format: str, folder: Path, report: Callable[[str], object] | None = None
) -> None:
    """Writes a run's best model to a new folder in one of `FORMATS`.

    Args:
      report: deprecated; called with each message about a damaged checkpoint.
    Raises:
      UserError: if the run has no model, or the folder cannot be written.
    """
    with deprecated_report(report):
        FORMATS[format](run.load_model(), run.load_tokenizer(), folder)
