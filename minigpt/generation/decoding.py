"""Decoder: continues prompts of token ids by sampling."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from minigpt.generation import decoding_loop
from minigpt.generation.sampling import SAMPLING_SPEC, penalize_repetition, sample
from minigpt.generation.step_models import CachedGPT, StepModel
from minigpt.models import GPT

_TOKEN_IDS = tf.TensorSpec([None, None], tf.int32, "token_ids")
_LENGTHS = tf.TensorSpec([None], tf.int32, "lengths")
_MAX_NEW_TOKENS = tf.TensorSpec([], tf.int32, "max_new_tokens")
_SEEDS = tf.TensorSpec([None], tf.int32, "seeds")
_BANNED_TOKENS = tf.TensorSpec([None], tf.int32, "banned_tokens")
_PROMPTS = [_TOKEN_IDS, _LENGTHS, _MAX_NEW_TOKENS]
_DRAWS = [SAMPLING_SPEC, _SEEDS, _BANNED_TOKENS]


class Decoder:
    """Continues prompts: prefill, then one token at a time.

    It is no `tf.Module`: a SavedModel that has it would trace all its functions.

    XLA compiles a GPT's loop once for each number of rows and each capacity, of which there are few: see
    `StepModel.capacity`. The steps within the context and those beyond it are two loops, each compiled
    when it is first needed: a conditional inside one loop would copy the caches at every step.

    Args:
      model: a GPT, or another model's adapter. Its weights are read at every call.
      end_id: the token that ends a text; it is not part of the continuation.
      never_sampled_ids: tokens that are never generated: padding, `[UNK]`, untrained bytes.
    """

    def __init__(
        self, model: GPT | StepModel, end_id: int, never_sampled_ids: Sequence[int] = ()
    ) -> None:
        self.model = model if isinstance(model, StepModel) else CachedGPT(model)
        self.end_id = end_id
        self.never_sampled_ids = sorted(set(never_sampled_ids))
        state = decoding_loop.DecodeState(
            token_ids=_TOKEN_IDS,
            lengths=_LENGTHS,
            limit=tf.TensorSpec([], tf.int32),
            step=tf.TensorSpec([], tf.int32),
            finished=tf.TensorSpec([None], tf.bool),
            new_lengths=tf.TensorSpec([None], tf.int32),
            seen=tf.TensorSpec([None, self.model.vocab_size], tf.bool),
            caches=self.model.cache_specs(),
        )
        # Instance attributes, because the signature depends on the model's sizes.
        signature = [state, _MAX_NEW_TOKENS, *_DRAWS]
        compiled = partial(tf.function, jit_compile=self.model.jit_compile, autograph=False)
        self._compiled_in_context = compiled(self._decode_in_context)
        self._compiled_past_context = compiled(self._decode_past_context)
        self.extend = tf.function(self._extend, signature, autograph=False)
        self.extend_in_context = tf.function(self._extend_in_context, signature, autograph=False)

    @tf.function(autograph=False, input_signature=[*_PROMPTS, *_DRAWS])
    def generate(self, token_ids, lengths, max_new_tokens, settings, seeds, banned_tokens):  # type: ignore[no-untyped-def]
        """Samples until the end token or max_new_tokens.

        Args:
          token_ids: int32[B, P], prompts, right-padded with any ids.
          lengths: int32[B], tokens in each prompt; an empty prompt starts a document.
          max_new_tokens: int32[]; negative values count as 0.
          settings: see `SamplingSettings`.
          seeds: int32[B].
          banned_tokens: int32[N], ids that are never generated; may include the end token.
        Returns:
          int32[B, N] with N ≤ max_new_tokens, the continuations, right-padded with the end token; and
          int32[B], their lengths.
        """
        state = self.prefill(token_ids, lengths, max_new_tokens)
        state = self.extend(state, max_new_tokens, settings, seeds, banned_tokens)
        return decoding_loop.new_ids(state), state.new_lengths

    @tf.function(autograph=False, input_signature=_PROMPTS)
    def prefill(self, token_ids, lengths, max_new_tokens):  # type: ignore[no-untyped-def]
        """Reads the prompts. The arguments are those of `generate`.

        Returns:
          A `DecodeState` with capacity for max_new_tokens.
        """
        rows = tf.shape(token_ids)[0]
        # A document starts after an end token, and an empty prompt starts a document.
        empty = lengths == 0
        token_ids = tf.pad(token_ids, [[0, 0], [0, 1]])
        token_ids = tf.where(empty[:, None], self.end_id, token_ids)
        filled = tf.where(empty, 1, lengths)
        token_ids = token_ids[:, : tf.reduce_max(tf.concat([filled, [1]], 0))]
        width = tf.shape(token_ids)[1]
        limit = tf.maximum(max_new_tokens, 0)
        capacity = self.model.capacity(width + limit)
        caches = self.model.prefill(token_ids, capacity)
        in_prompt = tf.sequence_mask(lengths, width)
        row_of = tf.repeat(tf.range(rows)[:, None], width, axis=1)
        seen = tf.tensor_scatter_nd_max(
            tf.zeros([rows, self.model.vocab_size], tf.int32),
            tf.stack([row_of, tf.where(in_prompt, token_ids, 0)], axis=2),
            tf.cast(in_prompt, tf.int32),
        )
        return decoding_loop.initial_state(token_ids, filled, limit, capacity, caches, seen > 0)

    def _extend(self, state, max_new_tokens, settings, seeds, banned_tokens):  # type: ignore[no-untyped-def]
        """Samples up to max_new_tokens more, within the capacity of the state.

        The tokens do not depend on the number of calls that generate them.
        """
        arguments = settings, seeds, banned_tokens
        end = _end(state, max_new_tokens)
        state = self._extend_in_context(state, max_new_tokens, *arguments)
        if not isinstance(self.model, CachedGPT):
            return state
        return tf.cond(
            decoding_loop.is_unfinished(state, end),
            lambda: self._compiled_past_context(state, end, *arguments),
            lambda: state,
        )

    def _extend_in_context(self, state, max_new_tokens, settings, seeds, banned_tokens):  # type: ignore[no-untyped-def]
        """Extends until a row has max_len tokens. It is traced in half the time of `extend`."""
        end = _end(state, max_new_tokens)
        # XLA does not support arrays without rows.
        return tf.cond(
            tf.size(state.lengths) > 0,
            lambda: self._compiled_in_context(state, end, settings, seeds, banned_tokens),
            lambda: state,
        )

    def _decode_in_context(self, state, end, *arguments):  # type: ignore[no-untyped-def]
        def continues(state):  # type: ignore[no-untyped-def]
            in_context = self.model.in_context(state.lengths + state.step)
            return decoding_loop.is_unfinished(state, end) & in_context

        return self._decode(state, self.model.step, continues, *arguments)

    def _decode_past_context(self, state, end, *arguments):  # type: ignore[no-untyped-def]
        assert isinstance(self.model, CachedGPT)
        unfinished = partial(decoding_loop.is_unfinished, end=end)
        return self._decode(state, self.model.step_past_context, unfinished, *arguments)

    def _decode(self, state, step, continues, settings, seeds, banned_tokens):  # type: ignore[no-untyped-def]
        banned = self._banned(banned_tokens)

        def choose(logits, state):  # type: ignore[no-untyped-def]
            logits = penalize_repetition(logits, state.seen, settings.repetition_penalty)
            chosen = sample(logits, seeds, state.step, settings)
            # If every token is banned, the text ends.
            return tf.where(tf.reduce_all(banned), self.end_id, chosen)

        return decoding_loop.decode(state, _with_bans(step, banned), choose, self.end_id, continues)

    @tf.function(autograph=False)
    def score(self, state, settings, banned_tokens):  # type: ignore[no-untyped-def]
        """Returns float32[B, V], the logits of the next tokens after the penalties, and new caches."""
        step = _with_bans(self.model.next_logits, self._banned(banned_tokens))
        logits, caches = step(state.token_ids, state.lengths + state.step, state.caches)
        return penalize_repetition(logits, state.seen, settings.repetition_penalty), caches

    @tf.function(autograph=False)
    def add_drawn(self, state, logits, caches, settings, seeds):  # type: ignore[no-untyped-def]
        """Adds to each row a token that is drawn from float32[B, V]; a row of -inf ends."""

        def choose(logits, state):  # type: ignore[no-untyped-def]
            chosen = sample(logits, seeds, state.step, settings)
            return tf.where(tf.reduce_all(tf.math.is_inf(logits), 1), self.end_id, chosen)

        scored, is_next = lambda *_: (logits, caches), lambda new: new.step == state.step
        return decoding_loop.decode(state, scored, choose, self.end_id, is_next)

    def _banned(self, banned_tokens):  # type: ignore[no-untyped-def]
        """bool[V], including those of `never_sampled_ids`."""
        ids = tf.concat([tf.constant(self.never_sampled_ids, tf.int32), banned_tokens], 0)
        return tf.reduce_any(tf.range(self.model.vocab_size)[:, None] == ids, 1)


def _with_bans(step: Callable[..., Any], banned: Any) -> Callable[..., Any]:
    return lambda token_ids, lengths, caches: step(token_ids, lengths, caches, banned)


def _end(state: decoding_loop.DecodeState, max_new_tokens: Any) -> Any:
    """int32[]: the number of new tokens after adding up to max_new_tokens more."""
    return tf.minimum(state.step + tf.maximum(max_new_tokens, 0), state.limit)
