"""The SavedModel: text in, text out, for programs that do not have minigpt."""

from pathlib import Path

from minigpt.environment import hide_tensorflow_log
from minigpt.models import GPT, EncoderDecoder
from minigpt.targets.export import output_folder
from minigpt.targets.saved_model.source_to_target import SourceToTarget
from minigpt.targets.saved_model.text_module import TextModule
from minigpt.targets.saved_model.text_to_text import TextToText
from minigpt.tokenizers import Tokenizer


def export_saved_model(model: GPT | EncoderDecoder, tokenizer: Tokenizer, output: Path) -> None:
    """Writes `output` as a SavedModel, whole or not at all; creates its parents.

    The signatures are the methods of `TextToText` or `SourceToTarget`; `serving_default` is `serve`.

    Raises:
      UserError: `output` is not empty, or cannot be written.
      TypeError: `tokenizer` is not a `minigpt.Tokenizer`: that of a portable file has no graph.
    """
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(
            "`tokenizer` must be a minigpt.Tokenizer, such as `run.load_tokenizer()`. "
            f"Received: an object of type {type(tokenizer).__name__}"
        )
    module = build_text_module(model, tokenizer)
    with output_folder(output) as folder:
        module.save(folder)


def build_text_module(model: GPT | EncoderDecoder, tokenizer: Tokenizer) -> TextModule:
    """Returns the module whose methods are the signatures of a SavedModel."""
    with hide_tensorflow_log():
        if isinstance(model, EncoderDecoder):
            return SourceToTarget(model, tokenizer)
        return TextToText(model, tokenizer)
