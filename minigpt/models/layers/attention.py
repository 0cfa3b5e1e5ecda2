"""Multi-head attention: to earlier tokens, with a cache for decoding; to all tokens; to a source."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from minigpt.models.layers.arguments import ATTENTION_NAMES, DescribedLayer, checked_arguments
from minigpt.models.layers.dense import Dense, side_by_side
from minigpt.models.layers.dropout import Dropout
from minigpt.models.layers.variants import POSITIONS, build_norm

# Of blocks of queries; measured in EXPERIMENTS.md ("attention in blocks").
MIN_QUERIES = 128
MAX_BLOCKS = 8


def attend(
    query: Any, key: Any, value: Any, visible: Any, dropout: Any, training: bool | None = None
) -> Any:
    """Computes scaled dot-product attention for each head: softmax(Q Kᵀ / sqrt(K)) V.

    Vaswani et al. 2017, section 3.2.1.

    Args:
      query: float[B, H, T, K].
      key: float[B, G, S, K]. G divides H; H / G consecutive heads share keys and values.
      value: float[B, G, S, U].
      visible: bool, broadcast to [B, H, T, S]: whether a query attends to a key; all keys if None. Each
        row needs at least one True: the softmax over an empty set is NaN.
      dropout: the layer that drops attention weights in training.
    Returns:
      float[B, H, T, U].
    """
    heads, groups = query.shape[1], key.shape[1]
    # `ops.einsum` would first transpose the keys in memory.
    scores = tf.matmul(_grouped(query / query.shape[-1] ** 0.5, groups), key, transpose_b=True)
    scores = _grouped(scores, heads)
    if visible is not None:
        scores = ops.where(visible, scores, ops.cast(float("-inf"), scores.dtype))
    weights = dropout(ops.softmax(scores, axis=-1), training=training)
    return _grouped(tf.matmul(_grouped(weights, groups), value), heads)


def blocks_of(query: Any) -> list[slice]:
    """Returns blocks of the queries float[B, H, T, K] of a causal layer; one block if T is not known.

    No query of a block attends to a key after the block, so that these scores need not be computed: with
    many blocks, almost half of all. A short block does not use a processor well, and each block adds to the
    time of compilation.
    """
    length = query.shape[2]
    if length is None:
        return [slice(0, None)]
    size = max(MIN_QUERIES, -(-length // MAX_BLOCKS))
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def normalized(x: Any, norm: Any) -> Any:
    """Normalizes queries or keys, float[B, H, T, K], if there is a norm: in a modern block."""
    return x if norm is None else norm(x)


def _grouped(x: Any, groups: int) -> Any:
    """float[B, H, T, N] → float[B, G, H / G * T, N]: the queries that the same keys are for; or back."""
    if x.shape[1] == groups:
        return x
    batch, heads, length, width = ops.shape(x)
    return ops.reshape(x, (batch, groups, heads * length // groups, width))


class Attention(DescribedLayer):
    """Base class of the kinds of multi-head attention (Vaswani et al. 2017, section 3.2.2).

    Args:
      num_heads: H.
      head_dim: K, width of the queries and keys of a head; `key_dim` is the same argument.
      value_dim: U, width of the values of a head; K if None.
      kernel_initializer: of each projection to queries, keys and values.
      output_initializer: of the kernel of the output projection; the same if None.
      **kwargs: other settings of `[model]`, such as `num_kv_heads`, `qkv_bias` and `attention_dropout_rate`
        (`dropout` is the same argument), and the arguments of `keras.layers.Layer`.
    Raises:
      TypeError: an argument is missing or given twice.
      ValueError: a setting is not valid.
    """

    # Only modern blocks have these norms.
    query_norm: Any = None
    key_norm: Any = None

    @checked_arguments(ATTENTION_NAMES)
    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        value_dim: int | None = None,
        *,
        kernel_initializer: Any = "glorot_uniform",
        output_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        sizes = {"num_heads": num_heads, "head_dim": head_dim, "value_dim": value_dim}
        initializers = kernel_initializer, output_initializer
        super().__init__({**kwargs, **sizes}, *initializers, block="pre_norm")
        config = self.config
        self.num_heads = config.num_heads
        self.num_kv_heads = config.num_kv_heads or config.num_heads
        self.head_dim, self.value_dim = config.head_sizes
        # The widths of all heads together.
        self.query_width = self.num_heads * self.head_dim
        self.key_width = self.num_kv_heads * self.head_dim
        self.value_width = self.num_kv_heads * self.value_dim
        self.dropout = Dropout(config.attention_dropout_rate, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: input_shape[-1]})
        if self.config.is_modern:
            # All heads share one gain, as in Qwen3 (Henry et al. 2020, "Query-Key Normalization").
            for name in ("query_norm", "key_norm"):
                setattr(self, name, build_norm(self.config, name, self.dtype_policy))
                getattr(self, name).build((None, None, None, self.head_dim))
        self.output_projection = self.dense(input_shape[-1], self.output_initializer, "output")
        self.output_projection.build((*input_shape[:-1], self.num_heads * self.value_dim))
        self.built = True

    def build_projection(self, input_shape: Any, name: str, *widths: int) -> Dense:
        """Returns a built dense layer that computes vectors of these widths, side by side.

        One matrix product is faster than one for each of them.
        """
        projection = Dense(
            sum(widths),
            use_bias=self.config.qkv_bias,
            kernel_initializer=side_by_side(self.kernel_initializer, widths),
            dtype=self.dtype_policy,
            name=name,
        )
        projection.build(input_shape)
        if self.config.is_modern:
            # Muon updates each of these matrices separately, as if they were several layers.
            projection.kernel.muon_parts = widths
        return projection

    def rotate(self, x: Any, positions: Any) -> Any:
        """Encodes positions in queries or keys; see `PositionEncoding.rotate`."""
        return POSITIONS[self.config.position].rotate(x, positions, self.config.rotary_base)

    def split_heads(self, x: Any, num_heads: int) -> Any:
        """float[B, T, H·N] → float[B, H, T, N]."""
        width = x.shape[-1] // num_heads
        heads = ops.reshape(x, (*ops.shape(x)[:2], num_heads, width))
        return ops.transpose(heads, (0, 2, 1, 3))

    def project_output(self, heads: Any) -> Any:
        """Concatenates the heads and projects them: float[B, H, T, U] → float[B, T, D]."""
        heads = ops.transpose(heads, (0, 2, 1, 3))
        shape = (*ops.shape(heads)[:2], self.num_heads * self.value_dim)
        return self.output_projection(ops.reshape(heads, shape))


@keras.saving.register_keras_serializable("minigpt")
class SelfAttention(Attention):
    """Self-attention in which each token attends to all tokens, also to later ones.

    Padding is attended to as well. Arguments are those of `Attention`.
    """

    causal = False
    value_mix: Any = None

    def build(self, input_shape: Any) -> None:
        widths = self.query_width, self.key_width, self.value_width
        self.qkv = self.build_projection(input_shape, "qkv", *widths)
        super().build(input_shape)
        if self.causal and getattr(self.config, "value_residual", False):
            self.value_mix = self.add_weight(
                shape=(), initializer=keras.initializers.Constant(0.5), name="value_mix"
            )

    def project_input(self, x: Any, positions: Any) -> tuple[Any, Any, Any]:
        """Computes queries, keys and values of x, float[B, T, D], at int32[B, T] or [1, T] positions.

        Returns:
          float[B, H, T, K], float[B, G, T, K] and float[B, G, T, U].
        """
        widths = [self.query_width, self.key_width, self.value_width]
        # Not `ops.split`, which adds a dozen operations to trace.
        parts = tf.split(self.qkv(x), widths, axis=-1)
        heads = (self.num_heads, self.num_kv_heads, self.num_kv_heads)
        query, key, value = map(self.split_heads, parts, heads)
        query, key = normalized(query, self.query_norm), normalized(key, self.key_norm)
        return self.rotate(query, positions), self.rotate(key, positions), value

    def call(self, x: Any, training: bool | None = None) -> Any:
        """Attends to the tokens of `x`: float[B, T, D] → float[B, T, D]."""
        return self.call_with_cache(x, training=training)[0]

    def call_with_cache(
        self,
        x: Any,
        cache: Any = None,
        index: Any = None,
        training: bool | None = None,
        first_values: Any = None,
        starts: Any = None,
    ) -> tuple[Any, Any, Any]:
        """Attends to the tokens of `x` and, in a causal layer, to earlier tokens in a cache.

        Args:
          x: float[B, T, D].
          cache: None, or keys float[B, G, S, K] and values float[B, G, S, U] of earlier tokens.
          index: int32[B], cache slot of the first token of each row. Later slots are overwritten before
            they are read.
          first_values: float[B, G, T, U], values of these tokens in the first block, for `value_residual`.
          starts: int32[B, T], where the text of each token begins in its row: earlier tokens are not
            attended to. None: each row is one text. Only without a cache.
        Returns:
          float[B, T, D]; the cache with the tokens of `x` added (None without a cache); and the values
          of these tokens, float[B, G, T, U].
        """
        positions = ops.arange(ops.shape(x)[1])[None]
        if cache is not None:
            positions = positions + index[:, None]
        query, key, value = self.project_input(x, positions)
        if self.value_mix is not None:
            if first_values is None:
                raise ValueError(
                    "value_residual = True needs `first_values`, those of another block"
                )
            value = value + ops.cast(self.value_mix, value.dtype) * (first_values - value)
        values = value
        if cache is not None:
            entries = cache_entries(positions, self.num_kv_heads)
            key = ops.scatter_update(cache[0], entries, key)
            value = ops.scatter_update(cache[1], entries, value)
            cache = (key, value)

        is_whole = cache is not None or not self.causal
        attended = []
        for block in [slice(0, None)] if is_whole else blocks_of(query):
            part = query[:, :, block], key[:, :, : block.stop], value[:, :, : block.stop]
            places = positions[:, block]
            begins = None if starts is None else starts[:, block]
            slots = ops.arange(ops.shape(part[1])[2])
            # Each row has at least one True: a token attends to itself.
            visible = slots <= places[:, None, :, None] if self.causal else None
            if begins is not None:
                visible = ops.logical_and(visible, slots >= begins[:, None, :, None])
            attended.append(attend(*part, visible, self.dropout, training))
        return self.project_output(ops.concatenate(attended, axis=2)), cache, values

    def empty_cache(self, batch_size: Any, max_len: int) -> tuple[Any, Any]:
        """Returns keys and values for no tokens: zeros[B, G, max_len, K] and [B, G, max_len, U].

        Raises a ValueError if the layer is not causal: a new token would change all earlier outputs.
        """
        if not self.causal:
            raise ValueError("A layer with causal = False cannot decode with a cache")
        shape = (batch_size, self.num_kv_heads, max_len)
        return (
            ops.zeros((*shape, self.head_dim), self.compute_dtype),
            ops.zeros((*shape, self.value_dim), self.compute_dtype),
        )


@keras.saving.register_keras_serializable("minigpt")
class CausalSelfAttention(SelfAttention):
    """Causal self-attention (Vaswani et al. 2017, section 3.2).

    Each token attends to the tokens before it and to itself. Arguments are those of `Attention`. With
    `value_residual = True`, the values are mixed with those of the first block, V + w (V₁ - V), where w is
    trained (Zhou et al. 2024, "Value Residual Learning").
    """

    causal = True


class BidirectionalAttention(Attention):
    """Base class of attention to all tokens of a source except padding.

    Keys and values of the source are computed separately (`keys_and_values`), so that decoding computes
    them only once. Arguments are those of `Attention`.
    """

    # Whether queries and keys have the positions of one sequence.
    has_positions = False

    def build(self, input_shape: Any) -> None:
        self.query = self.build_projection(input_shape, "query", self.query_width)
        widths = self.key_width, self.value_width
        self.key_value = self.build_projection(input_shape, "key_value", *widths)
        super().build(input_shape)

    def _with_positions(self, x: Any) -> Any:
        """Encodes positions in queries or keys float[B, H, T, K]."""
        return self.rotate(x, ops.arange(ops.shape(x)[2])[None]) if self.has_positions else x

    def keys_and_values(self, source: Any) -> tuple[Any, Any]:
        """float[B, S, D] → keys float[B, G, S, K] and values float[B, G, S, U]."""
        parts = ops.split(self.key_value(source), [self.key_width], axis=-1)
        key, value = (self.split_heads(part, self.num_kv_heads) for part in parts)
        return self._with_positions(normalized(key, self.key_norm)), value

    def call(
        self, x: Any, source: tuple[Any, Any], lengths: Any, training: bool | None = None
    ) -> Any:
        """Attends from each token of `x`, float[B, T, D], to the first `lengths` tokens of the source.

        Args:
          source: from `keys_and_values`.
          lengths: int32[B], each 1 or more; later tokens are padding.
        Returns:
          float[B, T, D].
        """
        key, value = source
        positions = ops.arange(ops.shape(key)[2])
        query = normalized(self.split_heads(self.query(x), self.num_heads), self.query_norm)
        query, visible = self._with_positions(query), positions < lengths[:, None, None, None]
        return self.project_output(attend(query, key, value, visible, self.dropout, training))


@keras.saving.register_keras_serializable("minigpt")
class BidirectionalSelfAttention(BidirectionalAttention):
    """Self-attention of the encoder (Vaswani et al. 2017, section 3.2.3): the source is `x` itself."""

    has_positions = True


@keras.saving.register_keras_serializable("minigpt")
class CrossAttention(BidirectionalAttention):
    """Attention of the decoder to the encoder's output (Vaswani et al. 2017, section 3.2.3)."""


def cache_entries(positions: Any, num_heads: int) -> Any:
    """int32[B, T] → int32[B, H, T, 3]: row, head and slot of the entries of each token."""
    rows, length = ops.shape(positions)
    parts = (ops.arange(rows)[:, None, None], ops.arange(num_heads)[:, None], positions[:, None])
    zeros = ops.zeros((rows, num_heads, length), "int32")
    return ops.stack([part + zeros for part in parts], axis=-1)
