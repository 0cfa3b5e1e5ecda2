"""Generation: from logits to token ids; sampling, the decoding loop, beam search, stop strings."""

from minigpt.generation.decoding import Decoder
from minigpt.generation.sampling import SAMPLING_SPEC, SamplingSettings
from minigpt.generation.stop_strings import cut_at_stop
from minigpt.generation.translation import Translator, translate_ids

__all__ = [
    "SAMPLING_SPEC",
    "Decoder",
    "SamplingSettings",
    "Translator",
    "cut_at_stop",
    "translate_ids",
]
