"""The SavedModel: text in, text out, for programs that do not have minigpt."""

from pathlib import Path

from minigpt.environment import hide_tensorflow_log
from minigpt.export.source_to_target import SourceToTarget
from minigpt.export.text_module import TextModule
from minigpt.export.text_to_text import TextToText
from minigpt.models import GPT, EncoderDecoder
from minigpt.tokenizers import Tokenizer


def export_saved_model(model: GPT | EncoderDecoder, tokenizer: Tokenizer, output: Path) -> None:
    """Writes `output` as a SavedModel, whole or not at all; creates its parents.

    The signatures are the methods of `TextToText` or `SourceToTarget`; `serving_default` is `serve`.

    Raises:
      UserError: `output` is not empty, or cannot be written.
    """
    module: TextModule
    with hide_tensorflow_log():
        if isinstance(model, EncoderDecoder):
            module = SourceToTarget(model, tokenizer)
        else:
            module = TextToText(model, tokenizer)
    module.save(output)
