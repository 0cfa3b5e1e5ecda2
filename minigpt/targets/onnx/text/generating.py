"""The decoding loop in three parts: before it, one pass through it, and after it."""

from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.config.sampling import BY_NAME, MAX_NEW_TOKENS
from minigpt.generation.loop import DecodeState, add_token, initial_state
from minigpt.generation.sampling import SAMPLING_SPEC, SamplingSettings, ban, sample_with
from minigpt.targets.cached_step import CachedStep
from minigpt.targets.onnx.text.rows import NOTHING, lengths_of
from minigpt.targets.onnx.text.words32 import uniform

# Random numbers are made for this many steps at a time.
_NUMBERS = 512
# The settings of the distribution that are inputs of the graph.
SAMPLED = [spec for spec in SAMPLING_SPEC if "onnx" in BY_NAME[spec.name].formats]

Tensors = dict[str, Any]


class Generator:
    """Continues prompts as `Decoder.generate` does.

    The loop contains the model once: a pass reads the whole prompt, one new token, or, beyond the context,
    the newest max_len tokens.

    Args:
      step: the model.
      end_id: the token that ends a text.
      never_sampled_ids: tokens that are never generated.
    """

    def __init__(self, step: CachedStep, end_id: int, never_sampled_ids: Any) -> None:
        self._step, self._end_id = step, end_id
        self._max_len = step.model.max_len
        self._banned = np.isin(np.arange(step.model.vocab_size), list(never_sampled_ids))
        self._cache_specs = step.signature(None, None)[2:]

    def begin(self, ids: Any, max_new_tokens: Any, seed: Any) -> Tensors:
        """Returns the values of the first pass, named as the arguments of `advance`.

        Args:
          ids: int32[B, P], prompts, shorter ones padded with NOTHING. An empty one starts a document.
          max_new_tokens: int32[]; negative values count as 0, those above MAX_NEW_TOKENS as that.
          seed: int32[].
        Returns:
          The values; `limit`, int64[], the most passes; and `continues`, bool[], whether there are any.
        """
        lengths = lengths_of(ids)
        # As in `Decoder.prefill`: an empty prompt is read as an end token.
        ids = tf.pad(ids, [[0, 0], [0, 1]], constant_values=NOTHING)
        width = tf.maximum(tf.shape(ids)[1] - 1, 1)
        ids = tf.maximum(tf.where((lengths == 0)[:, None], self._end_id, ids)[:, :width], 0)
        limit = tf.clip_by_value(max_new_tokens, 0, MAX_NEW_TOKENS)
        rows = tf.shape(ids)[0]
        caches = [tf.zeros([rows, *spec.shape[1:]]) for spec in self._cache_specs]
        state = initial_state(ids, tf.maximum(lengths, 1), limit, width + limit, caches)
        return {
            "token_ids": state.token_ids,
            "finished": state.finished,
            "new_lengths": state.new_lengths,
            "noise": _numbers(seed, tf.constant(0)),
            **dict(zip(self._step.cache_names, caches, strict=True)),
            "prompt_lengths": state.lengths,
            "prompt_width": width,
            "limit": tf.cast(limit, tf.int64),
            "continues": limit > 0,
        }

    def signature(self) -> list[tf.TensorSpec]:
        """Returns the arguments of `advance`: number of the pass, its state, and what does not change."""
        return [
            tf.TensorSpec([], tf.int64, "iteration"),
            tf.TensorSpec([None, None], tf.int32, "token_ids"),
            tf.TensorSpec([None], tf.bool, "finished"),
            tf.TensorSpec([None], tf.int32, "new_lengths"),
            tf.TensorSpec([_NUMBERS], tf.float32, "noise"),
            *self._cache_specs,
            tf.TensorSpec([None], tf.int32, "prompt_lengths"),
            tf.TensorSpec([], tf.int32, "prompt_width"),
            *SAMPLED,
            tf.TensorSpec([], tf.int32, "seed"),
        ]

    def advance(  # type: ignore[no-untyped-def]
        self, iteration, token_ids, finished, new_lengths, noise, *arguments
    ) -> Tensors:
        """Adds one token to every row; see `add_token`.

        Returns:
          The state of the next pass, `new_` before each name, and `continues`, bool[].
        """
        count = len(self._cache_specs)
        caches, (prompt_lengths, width, *values, seed) = arguments[:count], arguments[count:]
        given = {spec.name: value for spec, value in zip(SAMPLED, values, strict=True)}
        settings = SamplingSettings(**given).as_tensors()
        step = tf.cast(iteration, tf.int32)
        state = DecodeState(
            token_ids, prompt_lengths, 0, step, finished, new_lengths, (), list(caches)
        )

        def choose(logits: Any, state: DecodeState) -> Any:
            # All rows have the same seed.
            return sample_with(
                logits, tf.fill(tf.shape(logits)[:1], noise[step % _NUMBERS]), settings
            )

        state = add_token(
            state,
            lambda ids, lengths, caches: self._scores(ids, lengths, caches, width, step),
            choose,
            self._end_id,
        )
        noise = tf.cond(
            state.step % _NUMBERS == 0, lambda: _numbers(seed, state.step), lambda: noise
        )
        return {
            "continues": ~tf.reduce_all(state.finished),
            "new_token_ids": state.token_ids,
            "new_finished": state.finished,
            "new_new_lengths": state.new_lengths,
            "new_noise": tf.identity(noise),
            **{
                f"new_{name}": cache
                for name, cache in zip(self._step.cache_names, state.caches, strict=True)
            },
        }

    def _scores(
        self, token_ids: Any, lengths: Any, caches: Any, width: Any, step: Any
    ) -> tuple[Any, Any]:
        """Scores the token after the first `lengths` of each row; see `StepModel.step`."""
        is_first, is_past = step == 0, tf.reduce_any(lengths > self._max_len)
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

    def finish(self, ids: Any, token_ids: Any, prompt_lengths: Any, new_lengths: Any) -> Any:
        """Returns the prompts with their continuations, int32[B, T], shorter texts padded with NOTHING.

        Args:
          ids: the prompts, as for `begin`.
          token_ids, prompt_lengths, new_lengths: those after the last pass.
        """
        places = tf.range(tf.shape(token_ids)[1])
        is_text = places < (prompt_lengths + new_lengths)[:, None]
        # The end token of an empty prompt is left out.
        is_text &= (places > 0) | (lengths_of(ids) > 0)[:, None]
        return tf.where(is_text, token_ids, NOTHING)


def _numbers(seed: Any, first_step: Any) -> Any:
    """Returns float32[_NUMBERS]: the random numbers of this step and of those after it."""
    steps = first_step + tf.range(_NUMBERS)
    return uniform(tf.zeros_like(steps) + seed, steps)
