"""Opening a run: the model together with its tokenizer."""

import warnings
from collections.abc import Callable
from pathlib import Path

from minigpt.inference.text_model import TextModel
from minigpt.inference.translation_model import TranslationModel
from minigpt.models import EncoderDecoder
from minigpt.runs.run import Run


def load(
    run: Run | str | Path, report: Callable[[str], None] = warnings.warn
) -> TextModel | TranslationModel:
    """Opens a run's best model: a `TextModel`, or a `TranslationModel` if it was trained on pairs.

    Args:
      run: a run, or its directory.
      report: gets a line about every checkpoint that is broken, and about the one used in its place.
    Raises:
      UserError: if there is no run, or it has no finished checkpoint.
    """
    run = run if isinstance(run, Run) else Run(run)
    model, tokenizer = run.load_model(report), run.load_tokenizer()
    if isinstance(model, EncoderDecoder):
        return TranslationModel(model, tokenizer)
    return TextModel(model, tokenizer)
