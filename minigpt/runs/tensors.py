"""The weights of a model as the tensors of a portable file: names, shapes, parts. No TensorFlow."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from minigpt.config import GPTConfig, TransformerConfig


class _Weight(NamedTuple):
    """A weight of the Keras model: the tensors that it holds, one after the other.

    Attributes:
      sizes: the numbers of outputs of the tensors.
      is_kernel: whether it is stored as [inputs, outputs]: its transpose is written.
      is_flat: whether it is written as a vector.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    is_kernel: bool = False
    is_flat: bool = False


def named_tensors(
    config: TransformerConfig, weights: Sequence[np.ndarray], joins_qkv: bool = False
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the tensors of a portable file (docs/portable-file.md).

    Args:
      weights: the values of `model.weights`, in their order.
      joins_qkv: whether queries, keys and values of a GPT are one tensor, `attn_qkv`.
    Yields:
      Name, and float32[outputs, inputs], float32[V or max_len, D] or float32[size].
    """
    described = list(_weights(config.resolved(), joins_qkv))
    for weight, values in zip(described, weights, strict=True):
        array = np.asarray(values, np.float32)
        array = array.T if weight.is_kernel else array
        array = array.reshape(-1) if weight.is_flat else array
        ends = np.cumsum(weight.sizes)[:-1]
        parts = np.split(array, ends) if len(weight.names) > 1 else [array]
        yield from zip(weight.names, map(np.ascontiguousarray, parts), strict=True)


def weights_of(
    config: TransformerConfig, tensors: Mapping[str, np.ndarray], shapes: Sequence[tuple[int, ...]]
) -> Iterator[np.ndarray]:
    """Yields the values of `model.weights`, of these shapes, from the tensors of a portable file."""
    joins_qkv = "blk.0.attn_qkv.weight" in tensors
    for weight, shape in zip(_weights(config.resolved(), joins_qkv), shapes, strict=True):
        array = np.concatenate([tensors[name] for name in weight.names])
        array = array.T if weight.is_kernel else array
        yield array.reshape(shape) if weight.is_flat else array


def _weights(config: TransformerConfig, joins_qkv: bool) -> Iterator[_Weight]:
    """Yields the weights in the order of Keras: those of a layer itself, then those of its layers."""
    if config.position == "learned":
        yield _Weight(("position_embd.weight",))
    yield _Weight(("token_embd.weight",))
    if isinstance(config, GPTConfig):
        if config.ngrams:
            yield _Weight(("ngram_embd.weight",))
        for layer in range(config.num_layers):
            if layer and config.value_residual:
                yield _Weight((f"blk.{layer}.attn_v_mix.weight",), is_flat=True)
            yield from _block(config, f"blk.{layer}.", joins_qkv=joins_qkv)
            if config.convolution:
                for sublayer in ("attn", "ffn"):
                    yield _Weight((f"blk.{layer}.{sublayer}_conv.weight",), is_flat=True)
        if config.block != "post_norm":
            yield from _norm(config, "output_norm")
    else:
        for layer in range(config.num_layers):
            yield from _block(config, f"enc.blk.{layer}.", is_encoder=True)
        for layer in range(config.num_layers):
            yield from _block(config, f"dec.blk.{layer}.")
            yield from _attention(config, f"dec.blk.{layer}.cross_attn_", is_fused=False)
            yield from _norm(config, f"dec.blk.{layer}.cross_attn_norm")
        if config.block != "post_norm":
            yield from _norm(config, "enc.output_norm")
            yield from _norm(config, "dec.output_norm")
    if not config.tie_embeddings:
        yield from _dense(("output",), (), config.has_head_bias)


def _block(
    config: TransformerConfig, prefix: str, is_encoder: bool = False, joins_qkv: bool = False
) -> Iterator[_Weight]:
    yield from _attention(config, f"{prefix}attn_", not is_encoder, joins_qkv)
    expand = ("ffn_gate", "ffn_up") if config.is_modern else ("ffn_up",)
    sizes = (config.ff_size,) * len(expand)
    yield from _dense(tuple(prefix + name for name in expand), sizes, config.use_bias)
    yield from _dense((f"{prefix}ffn_down",), (), config.use_bias)
    yield from _norm(config, f"{prefix}attn_norm")
    yield from _norm(config, f"{prefix}ffn_norm")


def _attention(
    config: TransformerConfig, prefix: str, is_fused: bool, joins_qkv: bool = False
) -> Iterator[_Weight]:
    """Queries, keys and values are one weight if `is_fused`, otherwise keys and values are."""
    key_dim, value_dim = config.head_sizes
    groups = config.num_kv_heads or config.num_heads
    names = tuple(prefix + part for part in "qkv")
    sizes = (config.num_heads * key_dim, groups * key_dim, groups * value_dim)
    if joins_qkv:
        yield from _dense((f"{prefix}qkv",), (), config.qkv_bias)
    elif is_fused:
        yield from _dense(names, sizes, config.qkv_bias)
    else:
        yield from _dense(names[:1], sizes[:1], config.qkv_bias)
        yield from _dense(names[1:], sizes[1:], config.qkv_bias)
    if config.is_modern:
        yield _Weight((f"{prefix}q_norm.weight",))
        yield _Weight((f"{prefix}k_norm.weight",))
    yield from _dense((f"{prefix}output",), (), config.use_bias)


def _dense(names: tuple[str, ...], sizes: tuple[int, ...], bias: bool) -> Iterator[_Weight]:
    yield _Weight(tuple(f"{name}.weight" for name in names), sizes, True)
    if bias:
        yield _Weight(tuple(f"{name}.bias" for name in names), sizes)


def _norm(config: TransformerConfig, name: str) -> Iterator[_Weight]:
    yield _Weight((f"{name}.weight",))
    if not config.is_modern:
        yield _Weight((f"{name}.bias",))
