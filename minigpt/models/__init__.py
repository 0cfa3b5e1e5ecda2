"""Models, built from layers."""

# Keras first: its import loads the modules below (see minigpt/__init__.py).
import keras  # noqa: F401

from minigpt.config import TransformerConfig
from minigpt.models.encoder_decoder import EncoderDecoder
from minigpt.models.gpt import GPT

__all__ = ["GPT", "EncoderDecoder", "build_model"]


def build_model(
    config: TransformerConfig, vocab_size: int, precision: str = "float32"
) -> GPT | EncoderDecoder:
    """Returns the model of `config.kind` with its initial weights; `precision` is a Keras dtype policy."""
    if config.kind == "encoder_decoder":
        return EncoderDecoder(config, vocab_size, dtype=precision)
    return GPT(config, vocab_size, dtype=precision)
