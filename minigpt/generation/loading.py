"""Opens a run: the model together with its tokenizer."""

from pathlib import Path

from minigpt.generation.text_model import TextModel
from minigpt.generation.translation_model import TranslationModel
from minigpt.models import EncoderDecoder
from minigpt.runs.run import Run, as_run


def load(run: Run | str | Path) -> TextModel | TranslationModel:
    """Opens a run's best model: a `TextModel`, or a `TranslationModel` if it was trained on pairs.

    Damaged checkpoints, and the one that is used instead, are logged as warnings.

    Args:
      run: a run, or its directory.
    Raises:
      UserError: the run does not exist, or it has no finished checkpoint.
      TypeError: `run` is neither.
    """
    run = as_run(run)
    model, tokenizer = run.load_model(), run.load_tokenizer()
    if isinstance(model, EncoderDecoder):
        return TranslationModel(model, tokenizer)
    return TextModel(model, tokenizer)
