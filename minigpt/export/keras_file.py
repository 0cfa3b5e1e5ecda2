"""The model as a `.keras` file, with its tokenizer beside it."""

from pathlib import Path

from minigpt.models import GPT, EncoderDecoder
from minigpt.storage.folder import new_folder
from minigpt.tokenizers import Tokenizer


def export_keras(model: GPT | EncoderDecoder, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes `folder/model.keras` and `folder/tokenizer/`, whole or not at all.

    `keras.models.load_model` opens the file wherever minigpt has been imported.

    Raises:
      UserError: if there is something at `folder` already, or it cannot be written.
    """
    with new_folder(folder) as unfinished:
        model.save(unfinished / "model.keras")
        tokenizer.save(unfinished / "tokenizer")
