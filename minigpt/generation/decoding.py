"""Prompt ids to continuation ids: prefill, then one token at a time.

Everything that writes text runs this: the callback, `minigpt sample` and the exported model.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from minigpt.generation.beam_search import beam_search
from minigpt.generation.sampling import (
    SETTINGS_SPEC,
    ban,
    penalize_repetition,
    sample,
)
from minigpt.models import GPT

_TOKEN_IDS = tf.TensorSpec([None, None], tf.int32, "token_ids")
_LENGTHS = tf.TensorSpec([None], tf.int32, "lengths")
_COUNT = tf.TensorSpec([], tf.int32, "max_new_tokens")
_SEEDS = tf.TensorSpec([None], tf.int32, "seeds")
_BANNED = tf.TensorSpec([None], tf.int32, "banned_tokens")

# A head of so many bytes is read by all cores, a smaller one sooner by one.
LARGE_BYTES = 2**24


class DecodeState(NamedTuple):
    """A text half written.

    Attributes:
      token_ids: int32[B, W], prompts and behind each its continuation; W leaves room for all of it.
      lengths: int32[B], tokens in each prompt.
      most: int32[], new tokens there will be at most.
      step: int32[], new tokens so far.
      finished: bool[B], whether the end token came.
      seen: bool[B, V], tokens in prompt and continuation.
      caches: keys and values of all tokens but the newest.
    """

    token_ids: Any
    lengths: Any
    most: Any
    step: Any
    finished: Any
    seen: Any
    caches: Any


class Decoder(tf.Module):
    """Continues prompts with a model's own tokens.

    Up to max_len tokens each step feeds one token and reads the others from the cache. Beyond, all
    positions shift with every token and no cache is of use: each step is a full pass over the newest
    max_len tokens.

    The drawing is compiled by XLA, for every number of rows and every W anew: W is a multiple of max_len.
    The two kinds of steps are two loops, compiled when they are first needed: a choice between them in
    one loop would copy the caches at every step.

    Args:
      model: its weights are read at every call, so a decoder made once follows the training.
      end_id: the token that ends a text; it is not part of the continuation.
      undrawable_ids: tokens never to draw: padding, `[UNK]`.
    """

    def __init__(self, model: GPT, end_id: int, undrawable_ids: Sequence[int] = ()) -> None:
        super().__init__(name="decoder")
        self.model = model
        self.end_id = end_id
        self.undrawable_ids = sorted(set(undrawable_ids))

        def spec(tensor):  # type: ignore[no-untyped-def]
            return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)

        progress = DecodeState(
            _TOKEN_IDS,
            _LENGTHS,
            tf.TensorSpec([], tf.int32),
            tf.TensorSpec([], tf.int32),
            tf.TensorSpec([None], tf.bool),
            tf.TensorSpec([None, model.vocab_size], tf.bool),
            tf.nest.map_structure(spec, model.empty_caches(0)),
        )
        # Their arguments depend on the model's sizes.
        signature = [progress, _COUNT, SETTINGS_SPEC, _SEEDS, _BANNED]
        self._within = tf.function(self._draw_within, jit_compile=True, autograph=False)
        self._beyond = tf.function(self._draw_beyond, jit_compile=True, autograph=False)
        self.proceed = tf.function(self._proceed, signature, autograph=False)
        self.proceed_in_context = tf.function(self._proceed_in_context, signature, autograph=False)

    @tf.function(
        autograph=False,
        input_signature=[_TOKEN_IDS, _LENGTHS, _COUNT, SETTINGS_SPEC, _SEEDS, _BANNED],
    )
    def continuation(self, token_ids, lengths, max_new_tokens, settings, seeds, banned_tokens):  # type: ignore[no-untyped-def]
        """Draws until the end token or max_new_tokens.

        Args:
          token_ids: int32[B, P], prompts, right-padded with anything.
          lengths: int32[B], tokens in each prompt; a prompt of none starts a document.
          max_new_tokens: int32[]; less than 0 is 0.
          settings: see `sampling.Settings`.
          seeds: int32[B].
          banned_tokens: int32[N], ids never to draw; the end token may be one.
        Returns:
          int32[B, N] with N ≤ max_new_tokens, the continuations, right-padded with the end token, and
          int32[B], their lengths.
        """
        progress = self.begin(token_ids, lengths, max_new_tokens)
        progress = self.proceed(progress, max_new_tokens, settings, seeds, banned_tokens)
        return self.written(progress)

    @tf.function(autograph=False, input_signature=[_TOKEN_IDS, _LENGTHS, _COUNT])
    def begin(self, token_ids, lengths, max_new_tokens):  # type: ignore[no-untyped-def]
        """Reads the prompts; arguments as for `continuation`.

        Returns:
          A `DecodeState` with room for max_new_tokens.
        """
        rows = tf.shape(token_ids)[0]
        # A document begins behind an end token; an empty prompt begins one.
        empty = lengths == 0
        token_ids = tf.pad(token_ids, [[0, 0], [0, 1]])
        token_ids = tf.where(empty[:, None], self.end_id, token_ids)
        filled = tf.where(empty, 1, lengths)
        token_ids = token_ids[:, : tf.reduce_max(tf.concat([filled, [1]], 0))]
        caches = self._prefill(token_ids)
        in_prompt = tf.sequence_mask(lengths, tf.shape(token_ids)[1])
        places = tf.repeat(tf.range(rows)[:, None], tf.shape(token_ids)[1], axis=1)
        seen = tf.tensor_scatter_nd_max(
            tf.zeros([rows, self.model.vocab_size], tf.int32),
            tf.stack([places, tf.where(in_prompt, token_ids, 0)], axis=2),
            tf.cast(in_prompt, tf.int32),
        )
        most = tf.maximum(max_new_tokens, 0)
        width, max_len = tf.shape(token_ids)[1], self.model.max_len
        room = -(-(width + most) // max_len) * max_len
        token_ids = tf.pad(token_ids, [[0, 0], [0, room - width]])
        return DecodeState(
            token_ids, filled, most, tf.constant(0), tf.zeros([rows], tf.bool), seen > 0, caches
        )

    def _proceed(self, progress, max_new_tokens, settings, seeds, banned_tokens):  # type: ignore[no-untyped-def]
        """Draws up to max_new_tokens more, as far as `begin` left room.

        What comes does not depend on the number of calls it is made in.
        """
        end = _end(progress, max_new_tokens)
        how = settings, seeds, banned_tokens
        progress = self._proceed_in_context(progress, max_new_tokens, *how)
        return tf.cond(
            _unfinished(progress, end),
            lambda: self._beyond(progress, end, *how),
            lambda: progress,
        )

    def _proceed_in_context(self, progress, max_new_tokens, settings, seeds, banned_tokens):  # type: ignore[no-untyped-def]
        """`proceed` until a row has max_len tokens; half of it to trace."""
        end = _end(progress, max_new_tokens)
        # XLA knows no arrays without rows.
        return tf.cond(
            tf.size(progress.lengths) > 0,
            lambda: self._within(progress, end, settings, seeds, banned_tokens),
            lambda: progress,
        )

    def _draw_within(self, progress, end, *how):  # type: ignore[no-untyped-def]
        def goes_on(*progress):  # type: ignore[no-untyped-def]
            progress = DecodeState(*progress)
            return _unfinished(progress, end) & self._fits(progress.lengths + progress.step)

        return self._draw(progress, goes_on, self._from_cache, *how)

    def _draw_beyond(self, progress, end, *how):  # type: ignore[no-untyped-def]
        def goes_on(*progress):  # type: ignore[no-untyped-def]
            return _unfinished(DecodeState(*progress), end)

        return self._draw(progress, goes_on, self._from_window, *how)

    def _draw(self, progress, goes_on, latents_of, settings, seeds, banned_tokens):  # type: ignore[no-untyped-def]
        banned = self._banned(banned_tokens)

        def add_token(token_ids, lengths, most, step, finished, seen, caches):  # type: ignore[no-untyped-def]
            latents, caches = latents_of(token_ids, lengths + step, caches)
            logits = self._logits(latents, banned)
            logits = penalize_repetition(logits, seen, settings.repetition_penalty)
            drawn = sample(logits, seeds, step, settings)
            # Where all is banned there is nothing to say.
            finished = finished | (drawn == self.end_id) | tf.reduce_all(banned)
            drawn = tf.where(finished, self.end_id, drawn)
            token_ids, seen = self._write(token_ids, seen, lengths + step, drawn)
            return DecodeState(token_ids, lengths, most, step + 1, finished, seen, caches)

        def any_rows(tensor):  # type: ignore[no-untyped-def]
            return tf.TensorShape([None, *tensor.shape[1:]][: tensor.shape.rank])

        shapes = tf.nest.map_structure(any_rows, progress)
        shapes = shapes._replace(token_ids=tf.TensorShape([None, None]))
        return DecodeState(*tf.while_loop(goes_on, add_token, progress, shape_invariants=shapes))

    def written(self, progress):  # type: ignore[no-untyped-def]
        """int32[B, N], the continuations, right-padded with the end token; int32[B], their lengths."""
        places = progress.lengths[:, None] + tf.range(progress.step)
        new_ids = tf.gather(progress.token_ids, places, axis=1, batch_dims=1)
        ended = tf.cast(new_ids == self.end_id, tf.int32)
        return new_ids, tf.reduce_sum(1 - tf.minimum(tf.cumsum(ended, axis=1), 1), axis=1)

    @tf.function(
        autograph=False,
        input_signature=[
            _TOKEN_IDS,
            _LENGTHS,
            _COUNT,
            tf.TensorSpec([], tf.int32, "beams"),
            tf.TensorSpec([], tf.float32, "length_penalty"),
            tf.TensorSpec([], tf.float32, "repetition_penalty"),
            _BANNED,
        ],
    )
    def search(  # type: ignore[no-untyped-def]
        self,
        token_ids,
        lengths,
        max_new_tokens,
        beams,
        length_penalty,
        repetition_penalty,
        banned_tokens,
    ):
        """The likeliest continuations that beam search finds: nothing is drawn.

        Args:
          token_ids, lengths, max_new_tokens, banned_tokens: as for `continuation`.
          beams: int32[], W ≥ 1.
          length_penalty: see `beam_search`.
          repetition_penalty: see `penalize_repetition`.
        Returns:
          int32[B, W, N], best first, right-padded with the end token, and int32[B, W], their lengths.
        """
        begun = self.begin(token_ids, lengths, max_new_tokens)
        banned = self._banned(banned_tokens)

        def next_logits(new_ids, step, state):  # type: ignore[no-untyped-def]
            token_ids, seen, lengths, caches = state
            token_ids, seen = tf.cond(
                step > 0,
                lambda: self._write(token_ids, seen, lengths + step - 1, new_ids[:, step - 1]),
                lambda: (token_ids, seen),
            )
            written = lengths + step
            latents, caches = tf.cond(
                self._fits(written),
                lambda: self._from_cache(token_ids, written, caches),
                lambda: self._from_window(token_ids, written, caches),
            )
            logits = penalize_repetition(self._logits(latents, banned), seen, repetition_penalty)
            return logits, (token_ids, seen, lengths, caches)

        new_ids, new_lengths, _ = beam_search(
            next_logits,
            (begun.token_ids, begun.seen, begun.lengths, begun.caches),
            tf.shape(token_ids)[0],
            beams,
            tf.maximum(max_new_tokens, 0),
            self.end_id,
            length_penalty,
        )
        return new_ids, new_lengths

    def _banned(self, banned_tokens):  # type: ignore[no-untyped-def]
        """bool[V], with the undrawable tokens in it."""
        ids = tf.concat([tf.constant(self.undrawable_ids, tf.int32), banned_tokens], 0)
        return tf.reduce_any(tf.range(self.model.vocab_size)[:, None] == ids, 1)

    def _write(self, token_ids, seen, places, drawn):  # type: ignore[no-untyped-def]
        """Puts a token a row into its place, and among those that were seen."""
        rows = tf.range(tf.shape(token_ids)[0])
        token_ids = tf.tensor_scatter_nd_update(token_ids, tf.stack([rows, places], 1), drawn)
        seen = tf.tensor_scatter_nd_update(
            seen, tf.stack([rows, drawn], 1), tf.fill(tf.shape(drawn), True)
        )
        return token_ids, seen

    def _prefill(self, token_ids):  # type: ignore[no-untyped-def]
        """Caches of the prompts' first max_len tokens; where a prompt is longer they go unread."""
        rows = tf.shape(token_ids)[0]
        caches = self.model.empty_caches(rows)
        start = tf.zeros([rows], tf.int32)
        return self.model.call_with_cache(token_ids[:, : self.model.max_len], caches, start)[1]

    def _fits(self, written):  # type: ignore[no-untyped-def]
        """bool[]: whether the first `written` tokens of each row are within the context."""
        return tf.reduce_all(written <= self.model.max_len)

    def _from_cache(self, token_ids, written, caches):  # type: ignore[no-untyped-def]
        """float[B, 1, D], the latents of the last of each row's first `written` tokens; the caches."""
        newest = tf.gather(token_ids, written[:, None] - 1, axis=1, batch_dims=1)
        return self.model.call_with_cache(newest, caches, written - 1)

    def _from_window(self, token_ids, written, caches):  # type: ignore[no-untyped-def]
        """The same from the newest max_len tokens, without the caches."""
        max_len = self.model.max_len
        start = tf.maximum(written - max_len, 0)
        # Rows shorter than max_len are filled up with later places: no token looks there.
        places = tf.minimum(start[:, None] + tf.range(max_len), tf.shape(token_ids)[1] - 1)
        latents, _ = self.model.call_with_cache(tf.gather(token_ids, places, axis=1, batch_dims=1))
        last = (written - start - 1)[:, None]
        return tf.gather(latents, last, axis=1, batch_dims=1), caches

    def _logits(self, latents, banned):  # type: ignore[no-untyped-def]
        """float[B, 1, D] → float32[B, V], the model's logits; banned ones are -inf."""
        model = self.model
        if 4 * model.vocab_size * latents.shape[2] < LARGE_BYTES:
            return ban(model.logits(latents)[:, 0], banned)
        latents, head = latents[:, 0], model.head
        if head is None:
            return ban(model.logits(latents), banned)
        # The bans before the bias: see `layers.Dense`.
        scores = ban(tf.matmul(latents, tf.cast(head.kernel, latents.dtype)), banned)
        return tf.cast(scores + tf.cast(head.bias, latents.dtype), tf.float32)


def _end(progress, max_new_tokens):  # type: ignore[no-untyped-def]
    """int32[]: the number of new tokens after up to max_new_tokens more."""
    return tf.minimum(progress.step + tf.maximum(max_new_tokens, 0), progress.most)


def _unfinished(progress, end):  # type: ignore[no-untyped-def]
    return (progress.step < end) & ~tf.reduce_all(progress.finished)
