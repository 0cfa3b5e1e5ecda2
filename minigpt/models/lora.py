"""Low-rank adaptation: the product of two small matrices is trained and added to each frozen matrix.

Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models". The layers are those of Keras.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError, safe_open

from minigpt.errors import ArgumentProblem, UserError
from minigpt.models.gpt import GPT
from minigpt.models.state import copy_weights
from minigpt.tokenizers.base import Tokenizer

# The names of the factors begin with this.
_FACTOR = "lora_"
# The files of an adapter. The first one has the names of the library peft; its metadata has ours.
ADAPTER_FILE, TOKENIZER_FOLDER = "adapter_model.safetensors", "minigpt_tokenizer"
# What follows the name of a matrix in it.
A, B = ".lora_A.weight", ".lora_B.weight"


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
    for dense in adapted_layers(model).values():
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
    layers = [*adapted_layers(model).values(), model.embedding.token_embedding, model.head]
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


def adapted_layers(model: GPT) -> dict[str, keras.layers.Dense]:
    """Returns the four dense layers of each block, by their place in the model."""
    layers = {}
    for number, block in enumerate(model.blocks):
        layers[f"blocks.{number}.attention.qkv"] = block.attention.qkv
        layers[f"blocks.{number}.attention.output_projection"] = block.attention.output_projection
        layers[f"blocks.{number}.expand"] = block.expand
        layers[f"blocks.{number}.contract"] = block.contract
    return layers


def token_tables(model: GPT) -> list[tuple[Any, bool]]:
    """Returns the matrices with a vector for each token, and whether it is the head's, [D, V]."""
    head = [(model.head.kernel, True)] if model.head else []
    return [(model.embedding.token_embedding.embeddings, False), *head]


def mark_of(model: GPT) -> list[float]:
    """Returns numbers by which the model of an adapter is recognized."""
    return np.ravel(model.blocks[0].attention.qkv.weights[0])[:8].tolist()


def with_adapter(model: GPT, tokenizer: Tokenizer, folder: Path) -> tuple[GPT, Tokenizer]:
    """Returns a copy of a model with an adapter that was trained on it, and the adapter's tokenizer.

    Args:
      folder: written by `minigpt export --adapter`.
    Raises:
      UserError: there is no such adapter, or it was trained on another model.
    """
    try:
        with safe_open(folder / ADAPTER_FILE, framework="numpy") as file:
            described = json.loads(file.metadata()["minigpt"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        own = Tokenizer.load(folder / TOKENIZER_FOLDER)
        is_base = np.allclose(described["base"], mark_of(model), rtol=0.01, atol=1e-3)
        if not is_base or own.text_pieces != tokenizer.text_pieces:
            raise ValueError("it was trained on another one")
        adapted = GPT(model.config, own.vocab_size, dtype=model.dtype_policy)
        copy_weights(model, adapted)
        for name, (path, first, end) in described["columns"].items():
            kernel = adapted_layers(adapted)[path].kernel
            added = np.zeros(kernel.shape, "float32")
            added[:, first:end] = (tensors[name + B] @ tensors[name + A]).T
            kernel.assign_add(added)
        for name, (weight, is_head) in zip(
            described["vectors"], token_tables(adapted), strict=True
        ):
            values = np.array(weight)
            (values.T if is_head else values)[list(own.dialogue_tokens)] = tensors[name]
            weight.assign(values)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        problem = f"is no adapter of the model: {' '.join(str(error).split())}"
        raise UserError(ArgumentProblem("adapter", folder, problem)) from None
    return adapted, own
