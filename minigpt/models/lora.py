"""Low-rank adaptation: the product of two small matrices is trained and added to each frozen matrix.

Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models". The layers are those of Keras.
"""

import math
from collections.abc import Iterator

import keras
import numpy as np

from minigpt.models.gpt import GPT

# The names of the factors begin with this.
_FACTOR = "lora_kernel"


def enable_lora(model: GPT, rank: int) -> None:
    """Adds low-rank factors to the four matrices of each block and freezes all other weights.

    The token table has no factors: each vector is trained in only a few steps, and a sum of size V x D
    would be computed in every step. The second factor is zero at first, so the outputs do not change.

    Args:
      model: built.
      rank: inner width of the product.
    """
    for layer in (model.embedding, model.ngram_embedding, model.final_norm, model.head):
        if layer is not None:
            layer.trainable = False
    for block in model.blocks:
        attention = block.attention
        others = [block.norm1, block.norm2, attention.query_norm, attention.key_norm]
        others += [block.convolution1, block.convolution2, attention.value_mix]
        for part in others:
            if part is not None:
                part.trainable = False
    for dense in _adapted_layers(model):
        dense.enable_lora(rank)
        if dense.bias is not None:
            dense.bias.trainable = False


def merged_weights(model: GPT) -> list[np.ndarray]:
    """Returns the weights of the same model without LoRA, the products added to the matrices.

    Args:
      model: with LoRA, in float32.
    Returns:
      Arrays in the order of `model.weights`, without the factors.
    """
    merged, factors = {}, set()
    for dense in _adapted_layers(model):
        for weight in dense.weights:
            if weight.name == "kernel":
                merged[id(weight)] = dense.kernel
            elif weight.name.startswith(_FACTOR):
                factors.add(id(weight))
    return [
        keras.ops.convert_to_numpy(merged.get(id(weight), weight))
        for weight in model.weights
        if id(weight) not in factors
    ]


def count_merged(model: keras.Model) -> int:
    """Returns the number of weights of a model without LoRA's factors, if it has any."""
    sizes = (math.prod(w.shape) for w in model.weights if not w.name.startswith(_FACTOR))
    return sum(sizes)


def _adapted_layers(model: GPT) -> Iterator[keras.layers.Dense]:
    """Yields the four dense layers of each block."""
    for block in model.blocks:
        yield block.attention.qkv
        yield block.attention.output_projection
        yield block.expand
        yield block.contract
