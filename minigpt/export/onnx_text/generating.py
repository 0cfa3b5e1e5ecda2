"""The decoding loop in operators that ONNX has: prompts and continuations are token ids."""

from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.config import MAX_NEW_TOKENS
from minigpt.export.cached_step import CachedStep
from minigpt.export.onnx_text.random_numbers import uniform
from minigpt.export.onnx_text.rows import NOTHING
from minigpt.generation import SamplingSettings
from minigpt.generation.loop import DecodeState, decode, initial_state, is_unfinished
from minigpt.generation.sampling import ban, sample_with

# Random numbers are made for so many steps at a time.
_NUMBERS = 512


class Generator:
    """Continues prompts as `Decoder.generate` does.

    The graph contains the model once: one step reads the whole prompt, one new token, or, beyond the
    context, the newest max_len tokens.

    Args:
      step: the model.
      end_id: the token that ends a text.
      undrawable_ids: tokens that are never generated.
    """

    def __init__(self, step: CachedStep, end_id: int, undrawable_ids: Any) -> None:
        self._step, self._end_id = step, end_id
        self._max_len = step.model.max_len
        self._banned = np.isin(np.arange(step.model.vocab_size), list(undrawable_ids))

    def generate(
        self, ids: Any, lengths: Any, max_new_tokens: Any, settings: SamplingSettings, seed: Any
    ) -> Any:
        """Returns the prompts, each followed by its continuation.

        Args:
          ids: int32[B, P], prompts, NOTHING behind a shorter one.
          lengths: int32[B], tokens in each; an empty prompt starts a document.
          max_new_tokens: int32[]; negative values count as 0, those above MAX_NEW_TOKENS as that.
          settings: temperature, top_k and top_p; the others are not used.
          seed: int32[], the same for all rows.
        Returns:
          int32[B, T], NOTHING behind a shorter text; without end tokens.
        """
        # As in `Decoder.prefill`: an empty prompt is read as an end token.
        ids = tf.pad(ids, [[0, 0], [0, 1]], constant_values=NOTHING)
        is_empty = (lengths == 0)[:, None]
        width = tf.maximum(tf.shape(ids)[1] - 1, 1)
        token_ids = tf.maximum(tf.where(is_empty, self._end_id, ids)[:, :width], 0)
        filled = tf.maximum(lengths, 1)
        limit = tf.clip_by_value(max_new_tokens, 0, MAX_NEW_TOKENS)
        caches = [
            tf.zeros([tf.shape(ids)[0], *spec.shape[1:]]) for spec in self._step.signature(1, 1)[2:]
        ]
        noise = _numbers(seed, tf.constant(0))
        state = initial_state(token_ids, filled, limit, width + limit, (noise, *caches))

        def step(token_ids: Any, lengths: Any, caches: Any) -> tuple[Any, Any]:
            noise, *caches = caches
            next_step = (lengths - filled)[0] + 1
            logits, caches = self._scores(token_ids, lengths, caches, width, next_step == 1)
            noise = tf.cond(
                next_step % _NUMBERS == 0, lambda: _numbers(seed, next_step), lambda: noise
            )
            return logits, (noise, *caches)

        def choose(logits: Any, state: DecodeState) -> Any:
            noise = state.caches[0][state.step % _NUMBERS]
            return sample_with(logits, tf.fill(tf.shape(logits)[:1], noise), settings)

        state = decode(
            state, step, choose, self._end_id, lambda state: is_unfinished(state, limit)
        )
        places = tf.range(tf.shape(state.token_ids)[1])
        is_text = (places < (filled + state.new_lengths)[:, None]) & ~(is_empty & (places == 0))
        return tf.where(is_text, state.token_ids, NOTHING)

    def _scores(
        self, token_ids: Any, lengths: Any, caches: Any, width: Any, is_first: Any
    ) -> tuple[Any, Any]:
        """Scores the token after the first `lengths` of each row; see `StepModel.step`."""
        is_past = tf.reduce_any(lengths > self._max_len)
        count = tf.where(is_past, self._max_len, tf.where(is_first, width, 1))
        start = tf.where(is_first, 0, lengths - 1)
        start = tf.where(is_past, tf.maximum(lengths - self._max_len, 0), start)
        columns = tf.minimum(start[:, None] + tf.range(count), tf.shape(token_ids)[1] - 1)
        read = tf.gather(token_ids, columns, axis=1, batch_dims=1)
        # Beyond the context, positions begin at 0 again, and every entry of the caches is replaced.
        position = tf.where(is_past, tf.zeros_like(start), start)
        found = self._step.step_of_last(read, position, lengths - start - 1, *caches)
        caches = [found[f"new_{name}"] for name in self._step.cache_names]
        return ban(found["logits"], tf.constant(self._banned)), caches


def _numbers(seed: Any, first_step: Any) -> Any:
    """Returns float32[_NUMBERS]: the random numbers of this step and of those after it."""
    steps = first_step + tf.range(_NUMBERS)
    return uniform(tf.zeros_like(steps) + seed, steps)
