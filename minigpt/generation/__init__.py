"""From logits to token ids: how the next token is chosen, and the loop around it."""

from minigpt.generation.decoding import Decoder

__all__ = ["Decoder"]
