"""How the next token is chosen: pure functions on logits.

The filters work on candidates sorted from likeliest to least likely, so that each is a cut at a place in
the row. Their order is temperature, top-k, top-p, draw. Settings are tensors: changing one traces nothing.
"""

import tensorflow as tf


def sample(
    logits: tf.Tensor,
    seeds: tf.Tensor,
    step: tf.Tensor,
    temperature: tf.Tensor,
    top_k: tf.Tensor,
    top_p: tf.Tensor,
) -> tf.Tensor:
    """Chooses one token a row.

    Args:
      logits: float32[B, V], unnormalised.
      seeds: int32[B]; a row's draw depends on its seed, the step and its logits, on nothing else.
      step: int32[].
      temperature: float32[]; 0 or less is greedy.
      top_k: int32[]; 0 or less is no limit, 1 is greedy.
      top_p: float32[]; 1 is no limit, 0 or less is greedy.
    Returns:
      int32[B], token ids.
    """
    candidates, token_ids = tf.math.top_k(logits, k=tf.shape(logits)[1])
    candidates = apply_temperature(candidates, temperature)
    candidates = top_k_filter(candidates, top_k)
    candidates = top_p_filter(candidates, top_p)
    rank = draw(candidates, seeds, step)
    return tf.gather(token_ids, rank, axis=1, batch_dims=1)


def apply_temperature(candidates: tf.Tensor, temperature: tf.Tensor) -> tf.Tensor:
    """Divides by the temperature; at 0 only the likeliest candidate stays.

    Args:
      candidates: float32[B, V], sorted, largest first.
      temperature: float32[].
    Returns:
      float32[B, V], largest entry of a row 0.
    """
    # The largest becomes 0 first: a tiny temperature then overflows to -inf, never to nan or inf.
    candidates = candidates - candidates[:, :1]
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
    noise = tf.map_fn(
        lambda seed: tf.random.stateless_uniform([], [seed, step], alg="philox"),
        seeds,
        fn_output_signature=tf.float32,
    )
    # Where the sums pass noise · total: total is 1 but for rounding.
    passed = cumulative <= noise[:, None] * cumulative[:, -1:]
    rank = tf.reduce_sum(tf.cast(passed, tf.int32), axis=-1)
    # Only a row that is nan, from a model that is broken, counts to the end.
    return tf.minimum(rank, tf.shape(candidates)[1] - 1)
