"""The public Keras layers: the parts of the models."""

# Keras first: its import registers the models, which import these layers (see minigpt/__init__.py).
import keras  # noqa: F401

from minigpt.models.layers.attention import (
    BidirectionalSelfAttention,
    CausalSelfAttention,
    CrossAttention,
)
from minigpt.models.layers.embedding import TokenAndPositionEmbedding
from minigpt.models.layers.transformer_block import (
    DecoderBlock,
    EncoderBlock,
    ModernTransformerBlock,
    PreNormTransformerBlock,
    TransformerBlock,
)

__all__ = [
    "BidirectionalSelfAttention",
    "CausalSelfAttention",
    "CrossAttention",
    "DecoderBlock",
    "EncoderBlock",
    "ModernTransformerBlock",
    "PreNormTransformerBlock",
    "TokenAndPositionEmbedding",
    "TransformerBlock",
]
