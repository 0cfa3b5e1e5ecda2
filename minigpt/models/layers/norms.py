"""The normalization layers of a model: all are built here.

To add a kind, see docs/adding-to-the-model.md.
"""

from typing import Any

import keras

from minigpt.config import TransformerConfig


def build_norm(config: TransformerConfig, name: str, dtype: Any) -> keras.layers.Layer:
    """Returns a layer that normalizes vectors: RMSNorm in a modern block, otherwise LayerNorm."""
    if config.is_modern:
        norm = keras.layers.RMSNormalization(epsilon=config.norm_epsilon, dtype=dtype, name=name)
        norm.supports_masking = True  # As LayerNorm does: vectors are normalized one by one.
        return norm
    return keras.layers.LayerNormalization(epsilon=config.norm_epsilon, dtype=dtype, name=name)
