"""Beam search: not one next token, but the likeliest whole continuation that can be found."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def beam_search(
    next_logits: Callable[[tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]],
    state: Any,
    rows: tf.Tensor,
    beams: tf.Tensor,
    max_new_tokens: tf.Tensor,
    end_id: int,
    length_penalty: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Keeps the W best beginnings of a row and extends all of them, token by token.

    A continuation's score is the sum of its tokens' log-probabilities, the end token's with them, over
    (number of tokens) ** length_penalty: Wu et al. 2016, section 7, with the plain length as norm. A row
    is done when nothing that still runs could beat the worst of its W finished continuations.

    Args:
      next_logits: (new_ids int32[B·W, N], step int32[], state) → (float32[B·W, V], state): scores the
        token at place `step` behind `new_ids[:, :step]`.
      state: what `next_logits` needs to remember; a nest of tensors with B rows.
      rows: int32[], B.
      beams: int32[], W ≥ 1.
      max_new_tokens: int32[], N; what has not ended by then ends there.
      end_id: the token that ends a text.
      length_penalty: float32[]; 0 compares sums, 1 means a token; more favours longer texts.
    Returns:
      int32[B, W, N], best first, right-padded with the end token; int32[B, W], their lengths without
      it; and float32[B, W], their scores: -inf where there are fewer than W continuations.
    """
    minus_infinity = tf.constant(-float("inf"))
    shape = tf.stack([rows, beams, max_new_tokens])
    state = tf.nest.map_structure(lambda tensor: tf.repeat(tensor, beams, axis=0), state)

    def score(log_probability: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        # Before the first token there is nothing to divide.
        return log_probability / tf.cast(tf.maximum(length, 1), tf.float32) ** length_penalty

    def best(count: tf.Tensor, scores: tf.Tensor, *others: tf.Tensor) -> list[tf.Tensor]:
        scores, places = tf.math.top_k(scores, count)
        return [scores, *(tf.gather(other, places, axis=1, batch_dims=1) for other in others)]

    def unfinished(step, ids, sums, ended_ids, ended_lengths, ended_scores, state):  # type: ignore[no-untyped-def]
        # Sums only fall. Divided by the greatest length they are nearest to 0, if longer is better.
        length = tf.where(length_penalty > 0, max_new_tokens, step)
        attainable = score(tf.reduce_max(sums, axis=1), length)
        return (step < max_new_tokens) & tf.reduce_any(
            attainable > tf.reduce_min(ended_scores, axis=1)
        )

    def add_token(step, ids, sums, ended_ids, ended_lengths, ended_scores, state):  # type: ignore[no-untyped-def]
        logits, state = next_logits(tf.reshape(ids, [rows * beams, max_new_tokens]), step, state)
        vocab_size = tf.shape(logits)[1]
        gains = tf.reshape(tf.nn.log_softmax(logits), [rows, beams, vocab_size])
        candidates = tf.reshape(sums[:, :, None] + gains, [rows, beams * vocab_size])
        # At most W of the best 2 W are ends, one a beam: W are left to go on.
        sums, places = tf.math.top_k(candidates, tf.minimum(2, vocab_size) * beams)
        parents, tokens = places // vocab_size, places % vocab_size
        ends = tokens == end_id

        # ids behind `step` are end tokens already: an ended continuation is its parent as it is.
        ended_scores, ended_ids, ended_lengths = best(
            beams,
            tf.concat(
                [ended_scores, tf.where(ends, score(sums, step + 1), minus_infinity)], axis=1
            ),
            tf.concat([ended_ids, tf.gather(ids, parents, axis=1, batch_dims=1)], axis=1),
            tf.concat([ended_lengths, tf.fill(tf.shape(parents), step)], axis=1),
        )
        sums, parents, tokens = best(beams, tf.where(ends, minus_infinity, sums), parents, tokens)
        ids = tf.gather(ids, parents, axis=1, batch_dims=1)
        ids = tf.where(tf.range(max_new_tokens) == step, tokens[:, :, None], ids)
        parents = tf.reshape(parents + tf.range(rows)[:, None] * beams, [-1])
        state = tf.nest.map_structure(lambda tensor: tf.gather(tensor, parents), state)
        return step + 1, ids, sums, ended_ids, ended_lengths, ended_scores, state

    def any_rows(tensor: tf.Tensor) -> tf.TensorShape:
        return tf.TensorShape([None, *tensor.shape[1:]])

    table = tf.TensorShape([None, None])
    steps, ids, sums, ended_ids, ended_lengths, ended_scores, _ = tf.while_loop(
        unfinished,
        add_token,
        (
            tf.constant(0),
            tf.fill(shape, end_id),
            # All beams of a row begin alike: only the first may have children.
            tf.where(tf.range(beams) == 0, tf.zeros([rows, 1]), minus_infinity),
            tf.fill(shape, end_id),
            tf.zeros(shape[:2], tf.int32),
            tf.fill(shape[:2], minus_infinity),
            state,
        ),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([None, None, None]),
            table,
            tf.TensorShape([None, None, None]),
            table,
            table,
            tf.nest.map_structure(any_rows, state),
        ),
    )
    scores, ids, lengths = best(
        beams,
        tf.concat([ended_scores, score(sums, steps)], axis=1),
        tf.concat([ended_ids, ids], axis=1),
        tf.concat([ended_lengths, tf.fill(tf.shape(sums), steps)], axis=1),
    )
    return ids, lengths, scores
