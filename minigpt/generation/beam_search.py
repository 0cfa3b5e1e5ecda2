"""Beam search: searches for the most probable continuations."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from minigpt.generation.decoding_loop import DecodeState, any_rows, write


def beam_search(
    state: DecodeState,
    next_logits: Callable[[Any, Any, Any], tuple[Any, Any]],
    beams: tf.Tensor,
    end_id: int,
    length_penalty: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Continues every row of a decoding state by beam search.

    The score of a continuation is the sum of its tokens' log-probabilities, end token included, divided
    by (number of tokens) ** length_penalty: Wu et al. 2016, section 7, normalized by the plain length.
    A row is finished when no partial continuation can exceed the worst of its W finished ones.

    Args:
      state: a state before its first step; N is its limit, and longer continuations are cut.
      next_logits: (token_ids, lengths, caches) → (logits, caches), as `step` of `decode`.
      beams: int32[], W ≥ 1.
      length_penalty: float32[]; 0 compares sums, 1 compares means per token; larger values favor
        longer texts.
    Returns:
      int32[B, W, N], best first, right-padded with the end token; int32[B, W], their lengths without
      it; and float32[B, W], their scores: -inf where there are fewer than W continuations.
    """
    rows, max_new_tokens = tf.shape(state.token_ids)[0], state.limit
    minus_infinity = tf.constant(-float("inf"))
    shape = tf.stack([rows, beams, max_new_tokens])
    inputs = tf.nest.map_structure(
        lambda tensor: tf.repeat(tensor, beams, axis=0),
        (state.token_ids, state.lengths, state.caches),
    )

    def scored(new_ids: Any, step: Any, inputs: Any) -> tuple[Any, Any]:
        token_ids, lengths, caches = inputs
        token_ids = tf.cond(
            step > 0,
            lambda: write(token_ids, (), lengths + step - 1, new_ids[:, step - 1])[0],
            lambda: token_ids,
        )
        logits, caches = next_logits(token_ids, lengths + step, caches)
        return logits, (token_ids, lengths, caches)

    def score(log_probability: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        # The length is 0 if max_new_tokens is 0.
        return log_probability / tf.cast(tf.maximum(length, 1), tf.float32) ** length_penalty

    def best(count: tf.Tensor, scores: tf.Tensor, *others: tf.Tensor) -> list[tf.Tensor]:
        scores, indices = tf.math.top_k(scores, count)
        return [scores, *(tf.gather(other, indices, axis=1, batch_dims=1) for other in others)]

    def unfinished(step, ids, sums, ended_ids, ended_lengths, ended_scores, inputs):  # type: ignore[no-untyped-def]
        # Sums never increase. With a positive penalty, the largest length gives the upper bound.
        length = tf.where(length_penalty > 0, max_new_tokens, step)
        attainable = score(tf.reduce_max(sums, axis=1), length)
        return (step < max_new_tokens) & tf.reduce_any(
            attainable > tf.reduce_min(ended_scores, axis=1)
        )

    def add_token(step, ids, sums, ended_ids, ended_lengths, ended_scores, inputs):  # type: ignore[no-untyped-def]
        logits, inputs = scored(tf.reshape(ids, [rows * beams, max_new_tokens]), step, inputs)
        vocab_size = tf.shape(logits)[1]
        gains = tf.reshape(tf.nn.log_softmax(logits), [rows, beams, vocab_size])
        candidates = tf.reshape(sums[:, :, None] + gains, [rows, beams * vocab_size])
        # At most W of the best 2 W are end tokens, one per beam, so W others remain.
        sums, indices = tf.math.top_k(candidates, tf.minimum(2, vocab_size) * beams)
        parents, tokens = indices // vocab_size, indices % vocab_size
        ends = tokens == end_id

        # ids from `step` on are end tokens, so an ended continuation equals its parent.
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
        inputs = tf.nest.map_structure(lambda tensor: tf.gather(tensor, parents), inputs)
        return step + 1, ids, sums, ended_ids, ended_lengths, ended_scores, inputs

    table = tf.TensorShape([None, None])
    steps, ids, sums, ended_ids, ended_lengths, ended_scores, _ = tf.while_loop(
        unfinished,
        add_token,
        (
            tf.constant(0),
            tf.fill(shape, end_id),
            # All beams of a row are equal at first, so only the first one is extended.
            tf.where(tf.range(beams) == 0, tf.zeros([rows, 1]), minus_infinity),
            tf.fill(shape, end_id),
            tf.zeros(shape[:2], tf.int32),
            tf.fill(shape[:2], minus_infinity),
            inputs,
        ),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([None, None, None]),
            table,
            tf.TensorShape([None, None, None]),
            table,
            table,
            tf.nest.map_structure(any_rows, inputs),
        ),
    )
    scores, ids, lengths = best(
        beams,
        tf.concat([ended_scores, score(sums, steps)], axis=1),
        tf.concat([ended_ids, ids], axis=1),
        tf.concat([ended_lengths, tf.fill(tf.shape(sums), steps)], axis=1),
    )
    return ids, lengths, scores
