"""Keras layers: the parts of the models."""

# Keras first: its import registers the models, which import these layers (see minigpt/__init__.py).
import keras  # noqa: F401

from minigpt.layers.attention import CausalSelfAttention
from minigpt.layers.bidirectional_attention import BidirectionalSelfAttention, CrossAttention
from minigpt.layers.embedding import TokenAndPositionEmbedding
from minigpt.layers.encoder_decoder_blocks import DecoderBlock, EncoderBlock
from minigpt.layers.transformer_block import (
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
