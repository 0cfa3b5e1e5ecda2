"""Prompt ids to continuation ids: prefill, then one token at a time.

Everything that writes text runs this one function: the callback, `minigpt sample` and the exported model.
"""

from collections.abc import Sequence

import tensorflow as tf

from minigpt.generation.sampling import sample
from minigpt.models import GPT


class Decoder(tf.Module):
    """Continues prompts with a model's own tokens.

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

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, "token_ids"),
            tf.TensorSpec([None], tf.int32, "lengths"),
            tf.TensorSpec([], tf.int32, "max_new_tokens"),
            tf.TensorSpec([], tf.float32, "temperature"),
            tf.TensorSpec([], tf.int32, "top_k"),
            tf.TensorSpec([], tf.float32, "top_p"),
            tf.TensorSpec([None], tf.int32, "seeds"),
        ]
    )
    def continuation(self, token_ids, lengths, max_new_tokens, temperature, top_k, top_p, seeds):  # type: ignore[no-untyped-def]
        """Draws until the end token or max_new_tokens.

        Up to max_len tokens each step feeds one token and reads the others from the cache. Beyond, all
        positions shift with every token and no cache is of use: each step is a full pass over the newest
        max_len tokens.

        Args:
          token_ids: int32[B, P], prompts, right-padded with anything.
          lengths: int32[B], tokens in each prompt; a prompt of none starts a document.
          max_new_tokens: int32[]; less than 0 is 0.
          temperature, top_k, top_p: see `sampling.sample`.
          seeds: int32[B].
        Returns:
          int32[B, N] with N ≤ max_new_tokens, the continuations, right-padded with the end token, and
          int32[B], their lengths.
        """
        rows = tf.shape(token_ids)[0]
        max_new_tokens = tf.maximum(max_new_tokens, 0)
        # A document begins behind an end token; an empty prompt begins one.
        empty = lengths == 0
        token_ids = tf.pad(token_ids, [[0, 0], [0, 1]])
        token_ids = tf.where(empty[:, None], self.end_id, token_ids)
        lengths = tf.where(empty, 1, lengths)
        token_ids = token_ids[:, : tf.reduce_max(tf.concat([lengths, [1]], 0))]

        caches = self._prefill(token_ids)
        token_ids = tf.pad(token_ids, [[0, 0], [0, max_new_tokens]])
        finished = tf.zeros([rows], tf.bool)

        def unfinished(step, token_ids, finished, caches):  # type: ignore[no-untyped-def]
            return (step < max_new_tokens) & ~tf.reduce_all(finished)

        def add_token(step, token_ids, finished, caches):  # type: ignore[no-untyped-def]
            written = lengths + step
            logits, caches = self._next_logits(token_ids, written, caches)
            drawn = sample(logits, seeds, step, temperature, top_k, top_p)
            finished = finished | (drawn == self.end_id)
            drawn = tf.where(finished, self.end_id, drawn)
            places = tf.stack([tf.range(rows), written], axis=1)
            token_ids = tf.tensor_scatter_nd_update(token_ids, places, drawn)
            return step + 1, token_ids, finished, caches

        steps, token_ids, _, _ = tf.while_loop(
            unfinished,
            add_token,
            (tf.constant(0), token_ids, finished, caches),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([None, None]),
                tf.TensorShape([None]),
                [tuple(tf.TensorShape([None, *t.shape[1:]]) for t in cache) for cache in caches],
            ),
        )
        new_ids = tf.gather(token_ids, lengths[:, None] + tf.range(steps), axis=1, batch_dims=1)
        ended = tf.cast(new_ids == self.end_id, tf.int32)
        return new_ids, tf.reduce_sum(1 - tf.minimum(tf.cumsum(ended, axis=1), 1), axis=1)

    def _prefill(self, token_ids):  # type: ignore[no-untyped-def]
        """Caches of the prompts' first max_len tokens; where a prompt is longer they go unread."""
        rows = tf.shape(token_ids)[0]
        caches = self.model.empty_caches(rows)
        start = tf.zeros([rows], tf.int32)
        return self.model.advance(token_ids[:, : self.model.max_len], caches, start)[1]

    def _next_logits(self, token_ids, written, caches):  # type: ignore[no-untyped-def]
        """float32[B, V] for the token behind the first `written` ones of each row, and the caches."""
        max_len = self.model.max_len

        def step_on():  # type: ignore[no-untyped-def]
            newest = tf.gather(token_ids, written[:, None] - 1, axis=1, batch_dims=1)
            return self.model.advance(newest, caches, written - 1)

        def full_pass():  # type: ignore[no-untyped-def]
            start = tf.maximum(written - max_len, 0)
            # Rows shorter than max_len are filled up with later places: no token looks there.
            places = tf.minimum(start[:, None] + tf.range(max_len), tf.shape(token_ids)[1] - 1)
            latents, _ = self.model.advance(tf.gather(token_ids, places, axis=1, batch_dims=1))
            last = (written - start - 1)[:, None]
            return tf.gather(latents, last, axis=1, batch_dims=1), caches

        fits = tf.reduce_all(written <= max_len)
        latents, caches = tf.cond(fits, step_on, full_pass)
        logits = self.model.logits(latents)[:, 0]
        forbidden = tf.reduce_any(
            tf.range(self.model.vocab_size)[:, None] == tf.constant(self.undrawable_ids, tf.int32),
            1,
        )
        return tf.where(forbidden, -float("inf"), logits), caches
