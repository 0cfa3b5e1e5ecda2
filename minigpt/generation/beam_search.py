"""Beam search: searches for the most probable continuations."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from minigpt.generation.loop import DecodeState, any_rows, write
from minigpt.generation.sampling import penalize_repetition


def continue_by_beam_search(
    state: DecodeState,
    next_logits: Callable[[Any, Any, Any], tuple[Any, Any]],
    beams: tf.Tensor,
    end_id: int,
    length_penalty: tf.Tensor,
    repetition_penalty: tf.Tensor | float = 1.0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Continues every row of a decoding state by beam search.

    Args:
      state: a state before its first step.
      next_logits: (token_ids, lengths, caches) → (logits, caches), as `step` of `loop.decode`.
      beams: int32[], W ≥ 1.
      end_id: the token that ends a text.
      length_penalty: float32[], see `beam_search`.
      repetition_penalty: float32[], see `penalize_repetition`; has no effect if `state.seen` is ().
    Returns:
      int32[B, W, N], best first, right-padded with the end token; and int32[B, W], their lengths.
    """

    def scores(new_ids: Any, step: Any, beam_state: Any) -> tuple[Any, Any]:
        token_ids, seen, lengths, caches = beam_state
        token_ids, seen = tf.cond(
            step > 0,
            lambda: write(token_ids, seen, lengths + step - 1, new_ids[:, step - 1]),
            lambda: (token_ids, seen),
        )
        logits, caches = next_logits(token_ids, lengths + step, caches)
        for table in tf.nest.flatten(seen):
            logits = penalize_repetition(logits, table, repetition_penalty)
        return logits, (token_ids, seen, lengths, caches)

    ids, lengths, _ = beam_search(
        scores,
        (state.token_ids, state.seen, state.lengths, state.caches),
        tf.shape(state.token_ids)[0],
        beams,
        state.limit,
        end_id,
        length_penalty,
    )
    return ids, lengths


def beam_search(
    next_logits: Callable[[tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]],
    state: Any,
    rows: tf.Tensor,
    beams: tf.Tensor,
    max_new_tokens: tf.Tensor,
    end_id: int,
    length_penalty: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Extends the W best partial continuations of every row, token by token.

    The score of a continuation is the sum of its tokens' log-probabilities, end token included, divided
    by (number of tokens) ** length_penalty: Wu et al. 2016, section 7, normalized by the plain length.
    A row is finished when no partial continuation can exceed the worst of its W finished ones.

    Args:
      next_logits: (new_ids int32[B·W, N], step int32[], state) → (float32[B·W, V], state): scores the
        token that follows `new_ids[:, :step]`.
      state: the state of `next_logits`; a nest of tensors with B rows.
      rows: int32[], B.
      beams: int32[], W ≥ 1.
      max_new_tokens: int32[], N; longer continuations are cut.
      end_id: the token that ends a text.
      length_penalty: float32[]; 0 compares sums, 1 compares means per token; larger values favor
        longer texts.
    Returns:
      int32[B, W, N], best first, right-padded with the end token; int32[B, W], their lengths without
      it; and float32[B, W], their scores: -inf where there are fewer than W continuations.
    """
    minus_infinity = tf.constant(-float("inf"))
    shape = tf.stack([rows, beams, max_new_tokens])
    state = tf.nest.map_structure(lambda tensor: tf.repeat(tensor, beams, axis=0), state)

    def score(log_probability: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        # The length is 0 if max_new_tokens is 0.
        return log_probability / tf.cast(tf.maximum(length, 1), tf.float32) ** length_penalty

    def best(count: tf.Tensor, scores: tf.Tensor, *others: tf.Tensor) -> list[tf.Tensor]:
        scores, indices = tf.math.top_k(scores, count)
        return [scores, *(tf.gather(other, indices, axis=1, batch_dims=1) for other in others)]

    def unfinished(step, ids, sums, ended_ids, ended_lengths, ended_scores, state):  # type: ignore[no-untyped-def]
        # Sums never increase. With a positive penalty, the largest length gives the upper bound.
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
        state = tf.nest.map_structure(lambda tensor: tf.gather(tensor, parents), state)
        return step + 1, ids, sums, ended_ids, ended_lengths, ended_scores, state

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
