"""How the next token is chosen: pure functions on logits.

Their order is: penalties and bans, temperature, top-k, top-p, min-p, draw. From the temperature on they
work on candidates sorted from likeliest to least likely, so that each filter is a cut at a place in the
row. Settings are tensors: changing one traces nothing.
"""

from typing import Any, NamedTuple

import tensorflow as tf

# So many candidates are found much faster than all are sorted: top-k with a k up to this is quick.
FEW = 64


class Settings(NamedTuple):
    """How a token is drawn. The defaults leave a model's distribution as it is.

    Attributes:
      temperature: float32[]; 0 or less is greedy.
      top_k: int32[]; 0 or less is no limit, 1 is greedy.
      top_p: float32[]; 1 is no limit, 0 or less is greedy.
      min_p: float32[]; 0 is no limit, 1 or more is greedy.
      repetition_penalty: float32[]; 1 or less than 0 is none.
    """

    temperature: Any = 1.0
    top_k: Any = 0
    top_p: Any = 1.0
    min_p: Any = 0.0
    repetition_penalty: Any = 1.0

    def as_tensors(self) -> "Settings":
        """Python numbers made scalars of the dtypes above."""
        return Settings(
            *(tf.cast(value, spec.dtype) for value, spec in zip(self, SETTINGS_SPEC, strict=True))
        )


SETTINGS_SPEC = Settings(
    *(
        tf.TensorSpec([], tf.int32 if name == "top_k" else tf.float32, name)
        for name in Settings._fields
    )
)


def sample(logits: tf.Tensor, seeds: tf.Tensor, step: tf.Tensor, settings: Settings) -> tf.Tensor:
    """Chooses one token a row: temperature, top-k, top-p, min-p, draw.

    Args:
      logits: float32[B, V], unnormalised, with penalties and bans in them.
      seeds: int32[B]; a row's draw depends on its seed, the step and its logits, on nothing else.
      step: int32[].
      settings: see `Settings`.
    Returns:
      int32[B], token ids.
    """

    def choose(most: int) -> tf.Tensor:
        candidates, token_ids = shape_distribution(logits, settings, most)
        is_drawn = tf.range(most) == draw(candidates, seeds, step)[:, None]
        # A gather would do, but with one XLA sorts all V for the few.
        return tf.reduce_sum(tf.where(is_drawn, token_ids, 0), axis=1)

    size = logits.shape[1]
    if size <= FEW:
        return choose(size)
    few = ((settings.top_k > 0) & (settings.top_k <= FEW)) | (settings.temperature <= 0)
    return tf.cond(few, lambda: choose(FEW), lambda: choose(size))


def shape_distribution(
    logits: tf.Tensor, settings: Settings, most: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """What is drawn from: temperature, top-k, top-p, min-p.

    Args:
      logits: float32[B, V].
      settings: see `Settings`.
      most: C, the likeliest tokens that are looked at: V, or not less than top-k leaves.
    Returns:
      float32[B, C], the candidates' logits, largest first, -inf for what cannot be drawn; and
      int32[B, C], their token ids.
    """
    candidates, token_ids = tf.math.top_k(logits, k=most)
    candidates = apply_temperature(candidates, settings.temperature)
    candidates = top_k_filter(candidates, settings.top_k)
    candidates = top_p_filter(candidates, settings.top_p)
    return min_p_filter(candidates, settings.min_p), token_ids


def penalize_repetition(logits: tf.Tensor, seen: tf.Tensor, penalty: tf.Tensor) -> tf.Tensor:
    """Makes what the text already holds less likely: Keskar et al. 2019 (CTRL), section 4.1.

    Args:
      logits: float32[B, V].
      seen: bool[B, V], which tokens the text holds.
      penalty: float32[]; positive logits are divided by it, negative ones multiplied. 1 is none, and
        so is a penalty of 0 or less.
    Returns:
      float32[B, V].
    """
    penalty = tf.where(penalty > 0, penalty, 1)
    penalized = tf.where(logits > 0, logits / penalty, logits * penalty)
    return tf.where(seen, penalized, logits)


def ban(logits: tf.Tensor, banned: tf.Tensor) -> tf.Tensor:
    """Removes tokens from every draw.

    Args:
      logits: float[B, V].
      banned: bool[V].
    Returns:
      float[B, V]; banned entries are -inf.
    """
    return tf.where(banned, tf.constant(-float("inf"), logits.dtype), logits)


def apply_temperature(candidates: tf.Tensor, temperature: tf.Tensor) -> tf.Tensor:
    """Divides by the temperature; at 0 only the likeliest candidate stays.

    Args:
      candidates: float32[B, V], sorted, largest first.
      temperature: float32[].
    Returns:
      float32[B, V], largest entry of a row 0.
    """
    # The largest becomes 0 first: a tiny temperature then overflows to -inf, never to nan or inf.
    candidates = candidates - tf.reduce_max(candidates, axis=1, keepdims=True)
    greedy = top_k_filter(candidates, tf.constant(1))
    return tf.where(temperature > 0, candidates / tf.where(temperature > 0, temperature, 1), greedy)


def top_k_filter(candidates: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
    """Keeps the k likeliest candidates and removes the rest from the draw.

    Args:
      candidates: float32[B, V], sorted, largest first.
      k: int32[]; 0 or less is no limit, as is more than V.
    Returns:
      float32[B, V]; removed entries are -inf. Exactly k stay, ties included.
    """
    rank = tf.range(tf.shape(candidates)[1])
    return tf.where((rank < k) | (k <= 0), candidates, -float("inf"))


def top_p_filter(candidates: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
    """Keeps the fewest likeliest candidates whose probabilities add up to at least p.

    Nucleus sampling (Holtzman et al. 2020).

    Args:
      candidates: float32[B, V], sorted, largest first.
      p: float32[]; 1 or more is no limit; the likeliest candidate stays whatever p is.
    Returns:
      float32[B, V]; removed entries are -inf.
    """
    before = tf.math.cumsum(tf.nn.softmax(candidates), axis=-1, exclusive=True)
    first = tf.range(tf.shape(candidates)[1]) == 0
    return tf.where((before < p) | (p >= 1) | first, candidates, -float("inf"))


def min_p_filter(candidates: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
    """Keeps the candidates at least p times as probable as the likeliest (Nguyen et al. 2024).

    Args:
      candidates: float32[B, V], sorted, largest first.
      p: float32[]; 0 or less is no limit; the likeliest candidate stays whatever p is.
    Returns:
      float32[B, V]; removed entries are -inf.
    """
    ratio = tf.exp(candidates - tf.reduce_max(candidates, axis=1, keepdims=True))
    first = tf.range(tf.shape(candidates)[1]) == 0
    return tf.where((ratio >= p) | first, candidates, -float("inf"))


def draw(candidates: tf.Tensor, seeds: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """Draws a place in each row with the probabilities softmax(candidates).

    Args:
      candidates: float32[B, V]; -inf for what cannot be drawn.
      seeds: int32[B].
      step: int32[].
    Returns:
      int32[B].
    """
    cumulative = tf.math.cumsum(tf.nn.softmax(candidates), axis=-1)
    noise = tf.map_fn(lambda seed: _uniform(seed, step), seeds, fn_output_signature=tf.float32)
    # Where the sums pass noise · total: total is 1 but for rounding.
    passed = cumulative <= noise[:, None] * cumulative[:, -1:]
    rank = tf.reduce_sum(tf.cast(passed, tf.int32), axis=-1)
    # Only a row that is nan, from a model that is broken, counts to the end.
    return tf.minimum(rank, tf.shape(candidates)[1] - 1)


def _uniform(seed: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """What `tf.random.stateless_uniform([], [seed, step])` is without XLA, with XLA too.

    The bits are the same, and XLA only makes other fractions of them.
    """
    bits = tf.random.stateless_uniform(
        [], [seed, step], minval=None, maxval=None, dtype=tf.uint32, alg="philox"
    )
    return tf.cast(bits & 0x7FFFFF, tf.float32) * 2.0**-23
