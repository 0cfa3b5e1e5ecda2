"""The decoding loop: adds one token to every row until all rows are finished.

Sampling, greedy translation and the exported graphs run this loop. `beam_search` has its own loop
with the same state.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf


class DecodeState(NamedTuple):
    """Decoding state of a batch.

    Attributes:
      token_ids: int32[B, W], each prompt followed by its new tokens; W is the capacity.
      lengths: int32[B], tokens in each prompt.
      limit: int32[], maximum number of new tokens.
      step: int32[], new tokens so far.
      finished: bool[B], whether the end token was generated.
      new_lengths: int32[B], new tokens before the end token.
      seen: bool[B, V], tokens that occur in the prompt or the continuation; () if nothing reads it.
      caches: what the model stores for all tokens but the newest; a nest of tensors with B rows.
    """

    token_ids: Any
    lengths: Any
    limit: Any
    step: Any
    finished: Any
    new_lengths: Any
    seen: Any
    caches: Any


def initial_state(
    token_ids: Any, lengths: Any, limit: Any, capacity: Any, caches: Any, seen: Any = ()
) -> DecodeState:
    """Returns the state before the first new token.

    Args:
      token_ids: int32[B, P], prompts, right-padded.
      lengths: int32[B], each 1 or more.
      limit: int32[], maximum number of new tokens.
      capacity: int32[], W ≥ P + limit.
      caches: those of the prompts without their last tokens.
      seen: bool[B, V], or ().
    """
    rows = tf.shape(token_ids)[0]
    token_ids = tf.pad(token_ids, [[0, 0], [0, capacity - tf.shape(token_ids)[1]]])
    finished, none = tf.zeros([rows], tf.bool), tf.zeros([rows], tf.int32)
    return DecodeState(token_ids, lengths, limit, tf.constant(0), finished, none, seen, caches)


def is_unfinished(state: DecodeState, end: Any) -> Any:
    """Returns bool[]: whether there are fewer than `end` new tokens and a row without an end token."""
    return (state.step < end) & ~tf.reduce_all(state.finished)


def decode(
    state: DecodeState,
    step: Callable[[Any, Any, Any], tuple[Any, Any]],
    choose: Callable[[Any, DecodeState], Any],
    end_id: int,
    continues: Callable[[DecodeState], Any],
) -> DecodeState:
    """Adds tokens while `continues` holds.

    Args:
      step: (token_ids int32[B, W], lengths int32[B], caches) → (float32[B, V], caches): scores the token
        after the first `lengths` tokens of each row. See `step_models`.
      choose: (logits float32[B, V], state) → int32[B], the next token of each row.
      end_id: the token that ends a text; a finished row is padded with it.
      continues: state → bool[].
    Returns:
      The new state.
    """

    def add_token(*values: Any) -> DecodeState:
        state = DecodeState(*values)
        lengths = state.lengths + state.step
        logits, caches = step(state.token_ids, lengths, state.caches)
        chosen = choose(logits, state)
        finished = state.finished | (chosen == end_id)
        chosen = tf.where(finished, end_id, chosen)
        token_ids, seen = write(state.token_ids, state.seen, lengths, chosen)
        return state._replace(
            token_ids=token_ids,
            step=state.step + 1,
            finished=finished,
            new_lengths=state.new_lengths + tf.cast(~finished, tf.int32),
            seen=seen,
            caches=caches,
        )

    shapes = tf.nest.map_structure(any_rows, state)
    shapes = shapes._replace(token_ids=tf.TensorShape([None, None]))
    final = tf.while_loop(
        lambda *values: continues(DecodeState(*values)), add_token, state, shape_invariants=shapes
    )
    return DecodeState(*final)


def write(token_ids: Any, seen: Any, positions: Any, chosen: Any) -> tuple[Any, Any]:
    """Writes the tokens chosen, int32[B], at positions int32[B] of int32[B, W], and marks them as seen."""
    rows = tf.range(tf.shape(token_ids)[0])
    token_ids = tf.tensor_scatter_nd_update(token_ids, tf.stack([rows, positions], 1), chosen)
    marks = tf.stack([rows, chosen], 1), tf.fill(tf.shape(chosen), True)
    seen = tf.nest.map_structure(lambda table: tf.tensor_scatter_nd_update(table, *marks), seen)
    return token_ids, seen


def padded(rows: Sequence[np.ndarray]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns token ids int32[T] each as int32[B, T], right-padded with 0; and int32[B], their numbers."""
    lengths = [len(ids) for ids in rows]
    table = np.zeros((len(rows), max(lengths, default=0)), np.int32)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return tf.constant(table), tf.constant(lengths, tf.int32)


def new_ids(state: DecodeState) -> Any:
    """Returns int32[B, step]: the new tokens, right-padded with the end token."""
    columns = state.lengths[:, None] + tf.range(state.step)
    return tf.gather(state.token_ids, columns, axis=1, batch_dims=1)


def any_rows(tensor: Any) -> tf.TensorShape:
    """Returns the shape of a tensor of the state, with any number of rows."""
    return tf.TensorShape([None, *tensor.shape[1:]][: tensor.shape.rank])
