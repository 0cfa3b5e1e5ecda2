"""Low-rank adaptation: the product of two small matrices is trained and added to each frozen matrix.

Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models". The layers are those of Keras.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from minigpt.models.gpt import GPT

# The names of the factors begin with this.
_FACTOR = "lora_"


def enable_lora(model: GPT, rank: int, tokens: Sequence[int] = ()) -> None:
    """Adds low-rank factors to the four matrices of each block and freezes all other weights.

    The token table has no factors: each vector is trained in only a few steps, and a sum of size V x D
    would be computed in every step. Some tokens, which few steps have trained yet, are an exception. The
    outputs do not change at first.

    Args:
      rank: inner width of the product.
      tokens: ids whose vectors are trained too, also those of the head.
    """
    frozen: list[Any] = [model.embedding, model.ngram_embedding, model.final_norm, model.head]
    for block in model.blocks:
        attention = block.attention
        frozen += [block.norm1, block.norm2, attention.query_norm, attention.key_norm]
        frozen += [block.convolution1, block.convolution2, attention.value_mix]
    for part in frozen:
        if part is not None:
            part.trainable = False
    for dense in _adapted_layers(model):
        dense.enable_lora(rank)
        if dense.bias is not None:
            dense.bias.trainable = False
    if tokens:
        # In these frozen layers, one factor is trained. The other one selects the vectors.
        selection = (np.arange(model.vocab_size) == np.array(tokens)[:, None]).astype("float32")
        table = model.embedding.token_embedding
        table.enable_lora(len(tokens))
        table.lora_embeddings_a.assign(selection.T)
        table.lora_embeddings_b.trainable = True
        if model.head is not None:
            model.head.enable_lora(len(tokens), a_initializer="zeros")
            model.head.lora_kernel_b.assign(selection)
            model.head.lora_kernel_a.trainable = True


def merged_weights(model: GPT) -> list[np.ndarray]:
    """Returns the weights of the same model without LoRA, the products added to the matrices.

    They are in the order of `model.weights`, without the factors. The model is in float32.
    """
    merged, factors = {}, set()
    layers = [*_adapted_layers(model), model.embedding.token_embedding, model.head]
    for layer in layers:
        for weight in layer.weights if layer else ():
            if weight.name in ("kernel", "embeddings"):
                merged[id(weight)] = getattr(layer, weight.name)
            elif weight.name.startswith(_FACTOR):
                factors.add(id(weight))
    return [
        keras.ops.convert_to_numpy(merged.get(id(weight), weight))
        for weight in model.weights
        if id(weight) not in factors
    ]


def count_merged(model: keras.Model) -> int:
    """Returns the number of weights of a model without LoRA's factors, if it has any."""
    return sum(math.prod(w.shape) for w in model.weights if not w.name.startswith(_FACTOR))


def _adapted_layers(model: GPT) -> list[keras.layers.Dense]:
    """Returns the four dense layers of each block."""
    layers = []
    for block in model.blocks:
        attention = block.attention
        layers += [attention.qkv, attention.output_projection, block.expand, block.contract]
    return layers
