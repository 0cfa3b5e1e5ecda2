"""Opening a run: the model together with its tokenizer."""

from pathlib import Path

from minigpt.models import EncoderDecoder
from minigpt.run import Run
from minigpt.text_model import TextModel
from minigpt.translation_model import TranslationModel


def load(run: Run | str | Path) -> TextModel | TranslationModel:
    """Opens a run's best model: a `TextModel`, or a `TranslationModel` if it was trained on pairs.

    Raises:
      UserError: if there is no run, or it has no finished checkpoint.
    """
    run = run if isinstance(run, Run) else Run(run)
    model, tokenizer = run.load_model(), run.load_tokenizer()
    if isinstance(model, EncoderDecoder):
        return TranslationModel(model, tokenizer)
    return TextModel(model, tokenizer)
