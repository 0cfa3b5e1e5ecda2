"""The model as a `.keras` file, together with its tokenizer."""

from pathlib import Path

from minigpt.export.folder import output_folder
from minigpt.models import GPT, EncoderDecoder
from minigpt.tokenizers import Tokenizer


def export_keras(model: GPT | EncoderDecoder, tokenizer: Tokenizer, output: Path) -> None:
    """Writes `output/model.keras` and `output/tokenizer/`, whole or not at all.

    `keras.models.load_model` opens the file in a process that imported minigpt.

    Raises:
      UserError: `output` is not empty, or cannot be written.
    """
    with output_folder(output) as folder:
        model.save(folder / "model.keras")
        tokenizer.save(folder / "tokenizer")
