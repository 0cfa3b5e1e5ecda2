"""Sampling: pure functions that choose the next token from logits.

They are applied in this order: penalties and bans, the filters of `shape_distribution`, the draw. The
settings are tensors, each a scalar: changing one does not retrace.

A filter takes and returns the logits of candidates, float32[B, C], sorted by decreasing probability. It
sets those that it removes to -inf. Except by `typical_p_filter`, the most probable one is always kept.
"""

from collections import namedtuple
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from minigpt.config.sampling import DISTRIBUTION

# Selecting up to this many candidates is much faster than sorting the whole vocabulary.
FEW_CANDIDATES = 64


_NAMES = [setting.name for setting in DISTRIBUTION]
_NEUTRAL: Any = [setting.neutral for setting in DISTRIBUTION]
_Settings: Any = namedtuple("_Settings", _NAMES, defaults=_NEUTRAL)  # type: ignore[misc]


class SamplingSettings(_Settings):
    """Settings of `sample`: the rows of `config.sampling.DISTRIBUTION`, each a scalar.

    The defaults do not change the model's distribution. Values out of range are accepted:
      temperature, top_p: 0 or less, or nan: greedy. top_p above 1: no limit.
      top_k: 0 or less, or above V: no limit. min_p: 0 or less: no limit; 1 or more, or nan: greedy.
      typical_p: above 1, or nan: no limit; 0 or less: the most typical token.
      repetition_penalty: 0 or less, or nan: none.
    """

    __slots__ = ()
    if TYPE_CHECKING:

        def __new__(cls, *values: Any, **named: Any) -> "SamplingSettings": ...

        def __getattr__(self, name: str) -> Any: ...

    def as_tensors(self) -> "SamplingSettings":
        """Converts Python numbers to scalars: int32[] for integers, float32[] for the others."""
        dtypes = (spec.dtype for spec in SAMPLING_SPEC)
        return SamplingSettings(*map(tf.cast, tuple(self), dtypes))


SAMPLING_SPEC: Any = SamplingSettings(
    *(tf.TensorSpec([], tf.int32 if s.type is int else tf.float32, s.name) for s in DISTRIBUTION)
)


def sample(
    logits: tf.Tensor, seeds: tf.Tensor, step: tf.Tensor, settings: SamplingSettings
) -> tf.Tensor:
    """Chooses one token per row: see `shape_distribution` and `draw`.

    Args:
      logits: float32[B, V], unnormalized, with penalties and bans applied.
      seeds: int32[B]; a row's draw depends only on its seed, the step and its logits.
      step: int32[].
      settings: see `SamplingSettings`.
    Returns:
      int32[B], token ids.
    """
    noise = uniform_noise(seeds, step)

    def choose(count: int) -> tf.Tensor:
        candidates, token_ids = shape_distribution(logits, settings, count)
        is_drawn = tf.range(count) == draw(candidates, noise)[:, None]
        # With a gather instead, XLA would sort all V entries.
        return tf.reduce_sum(tf.where(is_drawn, token_ids, 0), axis=1)

    size = logits.shape[1]
    if size <= FEW_CANDIDATES:
        return choose(size)
    few = ((settings.top_k > 0) & (settings.top_k <= FEW_CANDIDATES)) | (settings.temperature <= 0)
    return tf.cond(few, lambda: choose(FEW_CANDIDATES), lambda: choose(size))


def shape_distribution(
    logits: tf.Tensor, settings: SamplingSettings, count: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the distribution to draw from: the temperature and the filters, one after another.

    Args:
      logits: float32[B, V].
      settings: see `SamplingSettings`.
      count: C, how many of the most probable tokens are considered: V, or at least as many as top-k keeps.
    Returns:
      float32[B, C], the candidates' logits, largest first, -inf for those that are removed; and
      int32[B, C], their token ids.
    """
    candidates, token_ids = tf.math.top_k(logits, k=count)
    candidates = apply_temperature(candidates, settings.temperature)
    candidates = top_k_filter(candidates, settings.top_k)
    candidates = top_p_filter(candidates, settings.top_p)
    candidates = min_p_filter(candidates, settings.min_p)
    # The filter sorts twice, so it is skipped where it has no effect.
    candidates = tf.cond(
        settings.typical_p < 1,
        lambda: typical_p_filter(candidates, settings.typical_p),
        lambda: candidates,
    )
    return candidates, token_ids


def penalize_repetition(logits: tf.Tensor, seen: tf.Tensor, penalty: tf.Tensor) -> tf.Tensor:
    """Penalizes tokens that already occur in the text: Keskar et al. 2019 (CTRL), section 4.1.

    Positive logits, float32[B, V], of the tokens seen, bool[B, V], are divided by the penalty, float32[];
    negative ones are multiplied by it. 1 means none, as does 0 or less.
    """
    penalty = tf.where(penalty > 0, penalty, 1)
    penalized = tf.where(logits > 0, logits / penalty, logits * penalty)
    return tf.where(seen, penalized, logits)


def ban(logits: tf.Tensor, banned: tf.Tensor) -> tf.Tensor:
    """Sets the logits, float[B, V], of banned tokens, bool[V], to -inf."""
    return tf.where(banned, tf.constant(-float("inf"), logits.dtype), logits)


def apply_temperature(candidates: tf.Tensor, temperature: tf.Tensor) -> tf.Tensor:
    """Divides by the temperature, float32[]; at 0 keeps only the most probable candidate.

    The largest entry of each row of the result is 0.
    """
    # With a largest entry of 0, a tiny temperature overflows to -inf, never to nan or inf.
    candidates = candidates - tf.reduce_max(candidates, axis=1, keepdims=True)
    divided = candidates / tf.where(temperature > 0, temperature, 1)
    first = tf.range(tf.shape(candidates)[1]) == 0
    return tf.where((temperature > 0) | first, divided, -float("inf"))


def top_k_filter(candidates: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
    """Keeps the k most probable candidates: exactly k, int32[], ties included; if k ≤ 0, all."""
    rank = tf.range(tf.shape(candidates)[1])
    return tf.where((rank < k) | (k <= 0), candidates, -float("inf"))


def top_p_filter(candidates: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
    """Keeps the smallest set of most probable candidates whose probabilities sum to at least p, float32[].

    Nucleus sampling (Holtzman et al. 2020). 1 or more means no limit.
    """
    before = tf.math.cumsum(tf.nn.softmax(candidates), axis=-1, exclusive=True)
    first = tf.range(tf.shape(candidates)[1]) == 0
    return tf.where((before < p) | (p >= 1) | first, candidates, -float("inf"))


def min_p_filter(candidates: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
    """Keeps candidates at least p times as probable as the most probable one (Nguyen et al. 2024).

    0 or less, float32[], means no limit.
    """
    ratio = tf.exp(candidates - tf.reduce_max(candidates, axis=1, keepdims=True))
    first = tf.range(tf.shape(candidates)[1]) == 0
    return tf.where((ratio >= p) | first, candidates, -float("inf"))


def typical_p_filter(candidates: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
    """Keeps the most typical candidates whose probabilities sum to at least p.

    Locally typical sampling (Meister et al. 2022, "Locally Typical Sampling"): the smallest set of
    candidates whose information, -log of the probability, is closest to its expected value, the entropy.
    If candidates have the same distance, the more probable one is kept first; if they are equally probable,
    the one with the lower index. The most typical candidate is always kept.
    """
    count = candidates.shape[1]
    probabilities = tf.nn.softmax(candidates)
    # The information minus the entropy is the mean logit minus the logit. Masked entries are -inf; their
    # products with the probability 0 would be nan.
    terms = probabilities * tf.maximum(candidates, -1e9)
    distance = tf.abs(tf.reduce_sum(terms, axis=1, keepdims=True) - candidates)
    order = tf.math.top_k(-distance, k=count).indices
    before = tf.math.cumsum(
        tf.gather(probabilities, order, axis=1, batch_dims=1), axis=-1, exclusive=True
    )
    kept = (before < p) | (tf.range(count) == 0)
    # The inverse of the permutation `order`.
    rank = tf.math.top_k(-order, k=count).indices
    is_kept = rank < tf.reduce_sum(tf.cast(kept, tf.int32), axis=1, keepdims=True)
    return tf.where(is_kept, candidates, -float("inf"))


def draw(candidates: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
    """Draws an index of each row of float32[B, V] with the probabilities softmax(candidates).

    `noise` is float32[B], random numbers from 0 to below 1; see `uniform_noise`. Returns int32[B].
    """
    cumulative = tf.math.cumsum(tf.nn.softmax(candidates), axis=-1)
    # Inverse transform sampling. The last sum is 1, up to rounding.
    passed = cumulative <= noise[:, None] * cumulative[:, -1:]
    rank = tf.reduce_sum(tf.cast(passed, tf.int32), axis=-1)
    # For a row of nan, from damaged weights, the rank would be V.
    return tf.minimum(rank, tf.shape(candidates)[1] - 1)


def uniform_noise(seeds: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """Returns float32[B], from 0 to below 1: a function of each of the seeds int32[B] and of the step."""
    return tf.map_fn(lambda seed: _uniform(seed, step), seeds, fn_output_signature=tf.float32)


def _uniform(seed: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """Returns the value of `tf.random.stateless_uniform([], [seed, step])` without XLA.

    XLA generates the same bits, but converts them to different fractions.
    """
    bits = tf.random.stateless_uniform(
        [], [seed, step], minval=None, maxval=None, dtype=tf.uint32, alg="philox"
    )
    return tf.cast(bits & 0x7FFFFF, tf.float32) * 2.0**-23
