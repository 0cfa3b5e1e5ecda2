"""The tensors of a GPT-2, with the names that `transformers` gives them."""

import re
from typing import Any

import keras
import numpy as np

from minigpt.config import TransformerConfig
from minigpt.models import GPT

PREFIX = "transformer."
HEAD = "lm_head.weight"
TOKENS = "wte.weight"
# The causal mask: a constant that old files contain.
BUFFER = re.compile(r"h\.\d+\.attn\.(masked_)?bias")


def tensor_shapes(config: TransformerConfig, vocab_size: int) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every tensor. Names omit `PREFIX`.

    Dense kernels are [in, out], as in Keras, because GPT-2 uses Conv1D. Only the head is [V, D].
    """
    width, inner = config.embed_dim, config.ff_size
    shapes: dict[str, tuple[int, ...]] = {
        TOKENS: (vocab_size, width),
        "wpe.weight": (config.max_len, width),
    }
    for layer in range(config.num_layers):
        for name, shape in {
            "ln_1": (width,),
            "attn.c_attn": (width, 3 * width),
            "attn.c_proj": (width, width),
            "ln_2": (width,),
            "mlp.c_fc": (width, inner),
            "mlp.c_proj": (inner, width),
        }.items():
            shapes[f"h.{layer}.{name}.weight"] = shape
            shapes[f"h.{layer}.{name}.bias"] = shape[-1:]
    shapes |= {"ln_f.weight": (width,), "ln_f.bias": (width,)}
    if not config.tie_embeddings:
        shapes[HEAD] = (vocab_size, width)
    return shapes


def variables(model: GPT) -> dict[str, Any]:
    """Returns the Keras variable of every tensor; None for a bias that the model does not have.

    The variable of `HEAD` is the transposed tensor.
    """
    assert model.final_norm is not None
    found: dict[str, Any] = {
        TOKENS: model.embedding.token_embedding.embeddings,
        "wpe.weight": model.embedding.position_table,
    }
    for layer, block in enumerate(model.blocks):
        for name, part in {
            "ln_1": block.norm1,
            "attn.c_attn": block.attention.qkv,
            "attn.c_proj": block.attention.output_projection,
            "ln_2": block.norm2,
            "mlp.c_fc": block.expand,
            "mlp.c_proj": block.contract,
        }.items():
            norm = name.startswith("ln")
            found[f"h.{layer}.{name}.weight"] = part.gamma if norm else part.kernel
            found[f"h.{layer}.{name}.bias"] = part.beta if norm else part.bias
    found |= {"ln_f.weight": model.final_norm.gamma, "ln_f.bias": model.final_norm.beta}
    if model.head is not None:
        found[HEAD] = model.head.kernel
    return found


def values(model: GPT) -> dict[str, np.ndarray]:
    """Returns every tensor as float32, with the names of `GPT2LMHeadModel`.

    A bias that the model does not have is zero.
    """
    no_bias = np.zeros(3 * model.embedding.embed_dim, "float32")
    written = {}
    for name, variable in variables(model).items():
        value = no_bias if variable is None else keras.ops.convert_to_numpy(variable)
        if name == HEAD:
            value = value.T
        written[name if name == HEAD else PREFIX + name] = np.ascontiguousarray(value)
    return written
