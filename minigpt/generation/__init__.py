"""From logits to token ids: how the next token is chosen, and the loops around it."""

from minigpt.generation.decoding import Decoder
from minigpt.generation.sampling import SETTINGS_SPEC, Settings
from minigpt.generation.stop_strings import cut_at_stop
from minigpt.generation.translation import Translator, translate_ids

__all__ = [
    "SETTINGS_SPEC",
    "Decoder",
    "Settings",
    "Translator",
    "cut_at_stop",
    "translate_ids",
]
