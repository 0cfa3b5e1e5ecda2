"""How tokens are chosen: what the engine says, and the same from the layers of the Keras model in NumPy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigpt.targets.gguf.instance import Engine

GUESSES = 10
_CHOICE_BYTES = 4 * (1 + 2 * GUESSES)


class Choice(NamedTuple):
    """Probability of the chosen token, and the most probable tokens with theirs."""

    chosen: float
    ids: np.ndarray
    probabilities: np.ndarray


class Inside(NamedTuple):
    """How one token is chosen: attention float[L, H, T], cross float[L, H, S] or None, lens of L."""

    attention: np.ndarray
    cross: np.ndarray | None
    lens: Any


class Inspector:
    """The exports of the engine that its Python class does not use."""

    def __init__(self, path: Path) -> None:
        self.engine = Engine(path)
        sizes = ("num_layers", "num_heads")
        self.layers, self.heads = (self.engine.key(f"minigpt.model.{name}") for name in sizes)

    def open(
        self, ids: Sequence[int] | np.ndarray, source: Sequence[int] | np.ndarray = ()
    ) -> None:
        self.engine._call("finish")
        text = self.engine._write_ids(ids)
        self.engine._checked("open_inspection", *text, *self.engine._write_ids(source))

    def leave_out(self, heads: Sequence[int], layers: Sequence[int]) -> None:
        """Leaves out heads, by layer · H + head, and layers."""
        numbers = *self.engine._write_ids(heads), *self.engine._write_ids(layers)
        self.engine._checked("leave_out", *numbers)

    def inspect(self, position: int, chosen: int) -> Inside:
        address = self.engine._checked("inspect", position, int(chosen))
        numbers = self.engine._view(address, 20).view("<u4").tolist()
        attention, cross, lens, stride, sources = numbers
        shape = (self.layers, self.heads)
        rows = self._floats(attention, (*shape, stride))[..., : position + 1]
        choices = [self.choice(lens + layer * _CHOICE_BYTES) for layer in range(self.layers)]
        return Inside(rows, self._floats(cross, (*shape, sources)) if cross else None, choices)

    def choice(self, address: int) -> Choice:
        content = self.engine._view(address, _CHOICE_BYTES).copy()
        ids, probabilities = content[4 : 4 + 4 * GUESSES], content[4 + 4 * GUESSES :]
        chosen = float(content[:4].view("<f4")[0])
        return Choice(chosen, ids.view("<i4"), probabilities.view("<f4"))

    def _floats(self, address: int, shape: tuple[int, ...]) -> np.ndarray:
        size = 4 * int(np.prod(shape))
        return self.engine._view(address, size).view("<f4").reshape(shape).copy()


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def look_inside(model: Any, ids: np.ndarray) -> Inside:
    """Returns how the token after `ids` is chosen by a GPT; lens: float[L, V]."""
    x, attention, lens = model.embedding(ids[None]), [], []
    for block in model.blocks:
        attention.append(_self_attention(block, x))
        x = block(x)
        lens.append(_answer(model, x, model.final_norm))
    return Inside(np.stack(attention), None, np.stack(lens))


def look_inside_pairs(model: Any, ids: np.ndarray, source: np.ndarray) -> Inside:
    """Returns how the token after `ids` is chosen by an encoder-decoder; lens: float[L, V]."""
    lengths = np.array([len(source)], "int32")
    encoded = model.embedding(source[None])
    for block in model.encoder_blocks:
        encoded = block(encoded, lengths)
    encoded = encoded if model.encoder_norm is None else model.encoder_norm(encoded)
    x, attention, cross, lens = model.embedding(ids[None]), [], [], []
    for block in model.decoder_blocks:
        attention.append(_self_attention(block, x))
        keys_and_values = block.cross_attention.keys_and_values(encoded)
        cross.append(_cross_attention(block, x, encoded))
        x = block(x, keys_and_values, lengths)
        lens.append(_answer(model, x, model.decoder_norm))
    return Inside(np.stack(attention), np.stack(cross), np.stack(lens))


def _answer(model: Any, x: Any, norm: Any) -> np.ndarray:
    latents = x if norm is None else norm(x)
    return softmax(model.logits(latents[:, -1:]).numpy()[0, 0].astype("float64"))


def _self_attention(block: Any, x: Any) -> np.ndarray:
    """float[H, T]: the attention of the last token of float[1, T, D]."""
    layer = block.attention
    inputs = np.asarray(block.sublayer_input(x, block.norm1))[0].astype("float64")
    projected = _project(layer.qkv, inputs)
    width = layer.num_heads * layer.head_dim
    query = _heads(projected[:, :width], layer.num_heads)
    key = _heads(
        projected[:, width : width + layer.num_kv_heads * layer.head_dim], layer.num_kv_heads
    )
    query, key = _normalized(layer.query_norm, query), _normalized(layer.key_norm, key)
    if layer.config.position == "rotary":
        base = layer.config.rotary_base
        query, key = _rotated(query, base), _rotated(key, base)
    return _weights(query[:, -1], key)


def _cross_attention(block: Any, x: Any, encoded: Any) -> np.ndarray:
    """float[H, S]: the attention of the last target token to the source."""
    # The sublayer before is the model's own.
    own = block.attention(block.sublayer_input(x, block.norm1))
    x = block.residual(x, own, block.norm1)
    layer = block.cross_attention
    inputs = np.asarray(block.sublayer_input(x, block.cross_norm))[0].astype("float64")
    query = _heads(_project(layer.query, inputs), layer.num_heads)
    width = layer.num_kv_heads * layer.head_dim
    keys = _project(layer.key_value, np.asarray(encoded)[0].astype("float64"))[:, :width]
    query = _normalized(layer.query_norm, query)
    return _weights(query[:, -1], _normalized(layer.key_norm, _heads(keys, layer.num_kv_heads)))


def _project(dense: Any, x: np.ndarray) -> np.ndarray:
    bias = 0.0 if dense.bias is None else dense.bias.numpy()
    return x @ dense.kernel.numpy().astype("float64") + bias


def _heads(x: np.ndarray, count: int) -> np.ndarray:
    """float[T, H·K] → float[H, T, K]."""
    return x.reshape(len(x), count, -1).swapaxes(0, 1)


def _normalized(norm: Any, x: np.ndarray) -> np.ndarray:
    """RMSNorm of the last axis; `x` if there is no norm."""
    if norm is None:
        return x
    (gain,) = norm.get_weights()
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + norm.epsilon) * gain


def _rotated(x: np.ndarray, base: float) -> np.ndarray:
    """Entries i and i + K/2 are a complex number, which is multiplied by exp(i t base^(-2i/K))."""
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[1])[:, None] * base ** (-2.0 * np.arange(half) / x.shape[-1])
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def _weights(query: np.ndarray, key: np.ndarray) -> np.ndarray:
    """float[H, K] and float[G, S, K] → float[H, S]."""
    key = np.repeat(key, len(query) // len(key), axis=0)
    return softmax(np.einsum("hk,hsk->hs", query, key) / np.sqrt(query.shape[-1]))
