"""Source ids to target ids: the source is read once, then one token at a time.

Everything that translates runs this one function: the callback, `minigpt translate`, BLEU and the exported
model.
"""

from collections.abc import Sequence

import tensorflow as tf

from minigpt.models import EncoderDecoder


class Translator(tf.Module):
    """Writes the targets that a model finds likeliest.

    Args:
      model: its weights are read at every call, so a translator made once follows the training.
      end_id: the token that ends a sentence, and stands in front of a target.
      undrawable_ids: tokens never to write: padding, `[UNK]`.
    """

    def __init__(
        self, model: EncoderDecoder, end_id: int, undrawable_ids: Sequence[int] = ()
    ) -> None:
        super().__init__(name="translator")
        self.model = model
        self.end_id = end_id
        self.undrawable_ids = sorted(set(undrawable_ids))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, "source_ids"),
            tf.TensorSpec([None], tf.int32, "source_lengths"),
            tf.TensorSpec([], tf.int32, "max_new_tokens"),
        ]
    )
    def greedy(self, source_ids, source_lengths, max_new_tokens):  # type: ignore[no-untyped-def]
        """The likeliest token, again and again, until the end token.

        Args:
          source_ids: int32[B, S], end tokens included, S ≤ max_len, right-padded with anything.
          source_lengths: int32[B], each 1 or more.
          max_new_tokens: int32[]; more than max_len is max_len.
        Returns:
          int32[B, N] with N ≤ max_new_tokens, right-padded with the end token, and int32[B], the
          lengths without it.
        """
        rows = tf.shape(source_ids)[0]
        limit = tf.clip_by_value(max_new_tokens, 0, self.model.max_len)
        source = self.model.encode(source_ids, source_lengths)
        caches = self.model.empty_caches(rows, limit)
        begin = tf.fill([rows], self.end_id)
        written = tf.TensorArray(tf.int32, size=0, dynamic_size=True, element_shape=[None])
        finished = tf.zeros([rows], tf.bool)

        def unfinished(step, newest, finished, caches, written):  # type: ignore[no-untyped-def]
            return (step < limit) & ~tf.reduce_all(finished)

        def add_token(step, newest, finished, caches, written):  # type: ignore[no-untyped-def]
            index = tf.fill([rows], step)
            logits, caches = self._next_logits(newest, source, caches, index)
            newest = tf.argmax(logits, axis=-1, output_type=tf.int32)
            finished = finished | (newest == self.end_id)
            newest = tf.where(finished, self.end_id, newest)
            return step + 1, newest, finished, caches, written.write(step, newest)

        *_, written = tf.while_loop(
            unfinished, add_token, (tf.constant(0), begin, finished, caches, written)
        )
        new_ids = tf.transpose(tf.reshape(written.stack(), [-1, rows]))
        ended = tf.cast(new_ids == self.end_id, tf.int32)
        return new_ids, tf.reduce_sum(1 - tf.minimum(tf.cumsum(ended, axis=1), 1), axis=1)

    def _next_logits(self, newest, source, caches, index):  # type: ignore[no-untyped-def]
        """float32[B, V] for the token behind `newest`, int32[B], and the caches with it in them."""
        latents, caches = self.model.advance(newest[:, None], source, caches, index)
        logits = self.model.logits(latents)[:, 0]
        forbidden = tf.reduce_any(
            tf.range(self.model.vocab_size)[:, None] == tf.constant(self.undrawable_ids, tf.int32),
            1,
        )
        return tf.where(forbidden, -float("inf"), logits), caches
