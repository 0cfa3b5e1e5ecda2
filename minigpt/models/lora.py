"""Low-rank adaptation: a small product of two matrices is trained beside each large one, which stays.

Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models"; the layers are Keras' own.
"""

from collections.abc import Iterator

import keras
import numpy as np

from minigpt.models.gpt import GPT


def enable_lora(model: GPT, rank: int) -> None:
    """Adds factors of this rank to the blocks' four matrices; from now on nothing else is trained.

    Not to the tables: a token's vector is trained by so few steps that a low rank saves nothing, and
    the sum would have to be made anew, V x D, in every step. The second factor starts at zero: at first
    the model computes what it did.
    """
    for layer in (model.embedding, model.final_norm, model.head):
        if layer is not None:
            layer.trainable = False
    for block in model.blocks:
        block.norm1.trainable = block.norm2.trainable = False
    for dense in _matrices(model):
        dense.enable_lora(rank)
        if dense.bias is not None:
            dense.bias.trainable = False


def merged_weights(model: GPT) -> list[np.ndarray]:
    """The values of the weights of the same model without LoRA, in their order: the sums.

    Args:
      model: in float32.
    """
    sums = {
        id(weight): dense.kernel
        for dense in _matrices(model)
        for weight in dense.weights
        if weight.name == "kernel"
    }
    factors = {
        id(weight)
        for dense in _matrices(model)
        for weight in dense.weights
        if weight.name.startswith("lora_kernel")
    }
    return [
        keras.ops.convert_to_numpy(sums.get(id(weight), weight))
        for weight in model.weights
        if id(weight) not in factors
    ]


def _matrices(model: GPT) -> Iterator[keras.layers.Dense]:
    """The four of each block."""
    for block in model.blocks:
        yield block.attention.qkv
        yield block.attention.output_projection
        yield block.expand
        yield block.contract
