"""Plain Keras layers: the two halves of a GPT and the attention inside."""

# Keras first: its import registers the models (see minigpt/__init__.py), which need these layers' modules.
import keras  # noqa: F401

from minigpt.layers.attention import MultiHeadAttention
from minigpt.layers.embedding import TokenAndPositionEmbedding
from minigpt.layers.transformer_block import PreNormTransformerBlock, TransformerBlock

__all__ = [
    "MultiHeadAttention",
    "PreNormTransformerBlock",
    "TokenAndPositionEmbedding",
    "TransformerBlock",
]
