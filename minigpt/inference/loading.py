"""Opening a run: the model together with its tokenizer."""

from collections.abc import Callable
from pathlib import Path

from minigpt.inference.text_model import TextModel
from minigpt.inference.translation_model import TranslationModel
from minigpt.models import EncoderDecoder
from minigpt.notices import deprecated_report
from minigpt.runs.run import Run


def load(
    run: Run | str | Path, report: Callable[[str], object] | None = None
) -> TextModel | TranslationModel:
    """Opens a run's best model: a `TextModel`, or a `TranslationModel` if it was trained on pairs.

    Args:
      run: a run, or its directory.
      report: deprecated; called with each message about a damaged checkpoint.
    Raises:
      UserError: if there is no run, or it has no checkpoint.
    """
    run = run if isinstance(run, Run) else Run(run)
    with deprecated_report(report):
        model, tokenizer = run.load_model(), run.load_tokenizer()
    if isinstance(model, EncoderDecoder):
        return TranslationModel(model, tokenizer)
    return TextModel(model, tokenizer)
