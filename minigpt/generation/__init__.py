"""From logits to token ids: how the next token is chosen, and the loop around it."""

from minigpt.generation.decoding import Decoder
from minigpt.generation.sampling import SETTINGS_SPEC, Settings
from minigpt.generation.stop_strings import cut_at_stop

__all__ = ["SETTINGS_SPEC", "Decoder", "Settings", "cut_at_stop"]
