"""Adapters from models to the decoding loop: the logits of the next token, with or without a cache.

In all methods `token_ids` is int32[B, W], `lengths` is int32[B], the number of tokens of each row that are
read, `caches` is a nest of tensors with B rows, and `banned` is bool[V].
"""

import abc
from typing import Any

import tensorflow as tf

from minigpt.generation.sampling import ban
from minigpt.models import GPT

# All cores multiply by a head of at least this many bytes faster than one core does.
LARGE_HEAD_BYTES = 2**24
# Of a longer window, the pass is traced for itself.
LONG_WINDOW = 512
# The smallest capacity for which XLA compiles the loop of a model with a longer context.
MIN_CAPACITY = 256


class StepModel(abc.ABC):
    """The interface between a model and the decoding loop.

    Attributes:
      vocab_size: V.
      max_len: T, the context.
      jit_compile: whether XLA compiles the loop.
    """

    vocab_size: int
    max_len: int
    jit_compile = False

    def capacity(self, length: Any) -> Any:
        """Returns int32[]: the tokens that rows have space for, at least `length`.

        Within the context it is max_len, or a smaller one of the numbers 256, 512, 1024 ...; beyond it, a
        multiple of max_len. Caches have this capacity, but at most max_len.
        """
        sizes, size = [self.max_len], MIN_CAPACITY
        while size < self.max_len:
            sizes.insert(-1, size)
            size *= 2
        in_context = tf.reduce_min(tf.where(tf.constant(sizes) >= length, sizes, self.max_len))
        return -(-length // in_context) * in_context

    def cache_specs(self) -> Any:
        """Returns a nest of `tf.TensorSpec`: the caches for any rows and any capacity."""
        return ()

    def prefill(self, token_ids: Any, capacity: Any) -> Any:
        """Returns the caches of the first max_len tokens of each row."""
        return ()

    @abc.abstractmethod
    def step(self, token_ids: Any, lengths: Any, caches: Any, banned: Any) -> tuple[Any, Any]:
        """Scores the next token of each row, within the context.

        Returns:
          float32[B, V], the logits, -inf for banned tokens, and the updated caches.
        """

    def in_context(self, lengths: Any) -> Any:
        """Returns bool[]: whether `step` can read this many tokens of each row."""
        return tf.constant(True)

    def next_logits(self, token_ids: Any, lengths: Any, caches: Any, banned: Any) -> Any:
        """Scores the next token of each row, as `step` does, for any lengths."""
        return self.step(token_ids, lengths, caches, banned)

    def row_bytes(self, capacity: int) -> int:
        """Returns an estimate of the bytes that decoding takes for a row of `capacity` tokens."""
        # The logits and their copies for sorting, and both copies of the tokens.
        return 32 * self.vocab_size + 8 * capacity


class CachedGPT(StepModel):
    """A GPT: a cache within the context, a sliding window beyond it.

    Beyond the context, all positions shift with every token, so no cached key stays valid: each step is a
    full pass over the newest max_len tokens.
    """

    def __init__(self, model: GPT, jit_compile: bool = True) -> None:
        self.model = model
        self.jit_compile = jit_compile
        self.vocab_size = model.vocab_size
        self.max_len = model.max_len
        # One graph reads prompts, single tokens and windows: tracing takes longer than short texts.
        tokens, index = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
        signature = [tokens, self.cache_specs(), index]
        self.read = tf.function(model.call_with_cache, signature, autograph=False)

    def read_whole(self, token_ids: Any, capacity: Any) -> tuple[Any, Any]:
        """Returns the latents of whole rows, float[B, T, D], and caches of `capacity` tokens."""
        rows = tf.shape(token_ids)[0]
        caches = self.model.empty_caches(rows, capacity)
        return self.read(token_ids, caches, tf.zeros([rows], tf.int32))

    def cache_specs(self) -> Any:
        def spec(cache: Any) -> tf.TensorSpec:
            _, groups, _, width = cache.shape
            return tf.TensorSpec([None, groups, None, width], cache.dtype)

        return tf.nest.map_structure(spec, self.model.empty_caches(0, 0))

    def prefill(self, token_ids: Any, capacity: Any) -> Any:
        # The caches of a prompt that is longer than the context are never read.
        capacity = tf.minimum(capacity, self.max_len)
        return self.read_whole(token_ids[:, : self.max_len], capacity)[1]

    def step(self, token_ids: Any, lengths: Any, caches: Any, banned: Any) -> tuple[Any, Any]:
        newest = newest_tokens(token_ids, lengths)
        latents, caches = self.read(newest, caches, lengths - 1)
        return self._logits(latents, banned), caches

    def in_context(self, lengths: Any) -> Any:
        return tf.reduce_all(lengths <= self.max_len)

    def step_past_context(
        self, token_ids: Any, lengths: Any, caches: Any, banned: Any
    ) -> tuple[Any, Any]:
        """Scores the next token of each row by a full pass over the newest max_len tokens."""
        window, last = newest_window(token_ids, lengths, self.max_len)
        if self.max_len > LONG_WINDOW:
            # Without caches, attention computes no scores of later keys: a quarter less time at 1,024.
            latents, _ = self.model.call_with_cache(window)
        else:
            latents, _ = self.read_whole(window, self.max_len)
        return self._logits(tf.gather(latents, last, axis=1, batch_dims=1), banned), caches

    def next_logits(self, token_ids: Any, lengths: Any, caches: Any, banned: Any) -> Any:
        arguments = token_ids, lengths, caches, banned
        return tf.cond(
            self.in_context(lengths),
            lambda: self.step(*arguments),
            lambda: self.step_past_context(*arguments),
        )

    def row_bytes(self, capacity: int) -> int:
        caches = tf.nest.flatten(self.model.empty_caches(1, 1))
        of_a_token = sum(int(tf.size(cache)) * cache.dtype.size for cache in caches)
        length = min(int(self.capacity(capacity)), self.max_len)
        # The loop's input, its state and its result.
        return super().row_bytes(capacity) + 3 * length * of_a_token

    def _logits(self, latents: Any, banned: Any) -> Any:
        """float[B, 1, D] → float32[B, V]."""
        model = self.model
        latents, head = latents[:, 0], model.head
        if head is None or 4 * model.vocab_size * latents.shape[1] < LARGE_HEAD_BYTES:
            return ban(model.logits(latents), banned)
        # Banning before adding the bias keeps XLA from fusing the product: see `layers.dense`.
        scores = ban(tf.matmul(latents, tf.cast(head.kernel, latents.dtype)), banned)
        if head.bias is not None:
            scores += tf.cast(head.bias, latents.dtype)
        return tf.cast(scores, tf.float32)


def newest_tokens(token_ids: Any, lengths: Any) -> Any:
    """Returns int32[B, 1]: the last of the first `lengths` tokens of each row."""
    return tf.gather(token_ids, lengths[:, None] - 1, axis=1, batch_dims=1)


def newest_window(token_ids: Any, lengths: Any, width: Any) -> tuple[Any, Any]:
    """Returns the newest tokens of each row, up to `width` of them.

    Returns:
      int32[B, width], shorter rows padded with whatever follows: a causal model never reads it; and
      int32[B, 1], the index of each row's last token.
    """
    start = tf.maximum(lengths - width, 0)
    columns = tf.minimum(start[:, None] + tf.range(width), tf.shape(token_ids)[1] - 1)
    window = tf.gather(token_ids, columns, axis=1, batch_dims=1)
    return window, (lengths - start - 1)[:, None]
