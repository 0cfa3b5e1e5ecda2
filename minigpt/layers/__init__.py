"""Plain Keras layers: what the models are built from."""

# Keras first: its import registers the models (see minigpt/__init__.py), which need these layers' modules.
import keras  # noqa: F401

from minigpt.layers.attention import CausalSelfAttention
from minigpt.layers.bidirectional_attention import BidirectionalAttention
from minigpt.layers.embedding import TokenAndPositionEmbedding
from minigpt.layers.encoder_decoder_blocks import DecoderBlock, EncoderBlock
from minigpt.layers.transformer_block import PreNormTransformerBlock, TransformerBlock

__all__ = [
    "BidirectionalAttention",
    "CausalSelfAttention",
    "DecoderBlock",
    "EncoderBlock",
    "PreNormTransformerBlock",
    "TokenAndPositionEmbedding",
    "TransformerBlock",
]
