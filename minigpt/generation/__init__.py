"""From logits to token ids: how the next token is chosen, and the loops around it."""

from minigpt.generation.decoding import Decoder
from minigpt.generation.translating import Translator, translate_ids

__all__ = ["Decoder", "Translator", "translate_ids"]
