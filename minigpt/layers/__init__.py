"""Plain Keras layers: the two halves of a GPT and the attention inside."""

from minigpt.layers.attention import MultiHeadAttention
from minigpt.layers.embedding import TokenAndPositionEmbedding
from minigpt.layers.transformer_block import PreNormTransformerBlock, TransformerBlock

__all__ = [
    "MultiHeadAttention",
    "PreNormTransformerBlock",
    "TokenAndPositionEmbedding",
    "TransformerBlock",
]
