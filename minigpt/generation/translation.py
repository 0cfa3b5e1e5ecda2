"""Source ids to target ids: the source is read once, then one token at a time.

Everything that translates runs this one function: the callback, `minigpt translate`, BLEU and the exported
model.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from minigpt.generation.beam_search import beam_search
from minigpt.models import EncoderDecoder

# Targets followed at once: more are hardly faster.
ROWS_AT_ONCE = 256


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
        autograph=False,
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, "source_ids"),
            tf.TensorSpec([None], tf.int32, "source_lengths"),
            tf.TensorSpec([], tf.int32, "max_new_tokens"),
            tf.TensorSpec([], tf.int32, "beams"),
            tf.TensorSpec([], tf.float32, "length_penalty"),
        ],
    )
    def translation(self, source_ids, source_lengths, max_new_tokens, beams, length_penalty):  # type: ignore[no-untyped-def]
        """The likeliest target that is found, token by token until the end token.

        Args:
          source_ids: int32[B, S], end tokens included, S ≤ max_len, right-padded with anything.
          source_lengths: int32[B], each 1 or more.
          max_new_tokens: int32[]; more than max_len is max_len.
          beams: int32[]; 1 or less is greedy, more is a beam search of this width.
          length_penalty: float32[], of the beam search; see `beam_search`.
        Returns:
          int32[B, N] with N ≤ max_new_tokens, right-padded with the end token, and int32[B], the
          lengths without it.
        """
        limit = tf.clip_by_value(max_new_tokens, 0, self.model.max_len)
        source = self.model.encode(source_ids, source_lengths)
        return tf.cond(
            beams > 1,
            lambda: self._beam(source, limit, beams, length_penalty),
            lambda: self._greedy(source, limit),
        )

    def _greedy(self, source, limit):  # type: ignore[no-untyped-def]
        """The likeliest token, again and again."""
        rows = tf.size(source[1])
        caches = self.model.empty_caches(rows, limit)
        begin = tf.fill([rows], self.end_id)
        written = tf.fill([rows, limit], self.end_id)
        finished = tf.zeros([rows], tf.bool)

        def unfinished(step, newest, finished, caches, written):  # type: ignore[no-untyped-def]
            return (step < limit) & ~tf.reduce_all(finished)

        def add_token(step, newest, finished, caches, written):  # type: ignore[no-untyped-def]
            index = tf.fill([rows], step)
            logits, caches = self._next_logits(newest, source, caches, index)
            newest = tf.argmax(logits, axis=-1, output_type=tf.int32)
            finished = finished | (newest == self.end_id)
            newest = tf.where(finished, self.end_id, newest)
            written = tf.where(tf.range(limit) == step, newest[:, None], written)
            return step + 1, newest, finished, caches, written

        steps, *_, written = tf.while_loop(
            unfinished, add_token, (tf.constant(0), begin, finished, caches, written)
        )
        ended = tf.cast(written == self.end_id, tf.int32)
        lengths = tf.reduce_sum(1 - tf.minimum(tf.cumsum(ended, axis=1), 1), axis=1)
        return written[:, :steps], lengths

    def _beam(self, source, limit, beams, length_penalty):  # type: ignore[no-untyped-def]
        """The best of several targets at a time."""
        rows = tf.size(source[1])

        def next_logits(new_ids, step, state):  # type: ignore[no-untyped-def]
            source, caches = state
            rows = tf.shape(new_ids)[0]
            newest = tf.where(step > 0, new_ids[:, tf.maximum(step - 1, 0)], self.end_id)
            logits, caches = self._next_logits(newest, source, caches, tf.fill([rows], step))
            return logits, (source, caches)

        caches = self.model.empty_caches(rows, limit)
        ids, lengths, _ = beam_search(
            next_logits, (source, caches), rows, beams, limit, self.end_id, length_penalty
        )
        lengths = lengths[:, 0]
        return ids[:, 0, : tf.reduce_max(tf.concat([lengths, [0]], 0))], lengths

    def _next_logits(self, newest, source, caches, index):  # type: ignore[no-untyped-def]
        """float32[B, V] for the token behind `newest`, int32[B], and the caches with it in them."""
        latents, caches = self.model.call_with_cache(newest[:, None], source, caches, index)
        logits = self.model.logits(latents[:, 0])
        forbidden = tf.reduce_any(
            tf.range(self.model.vocab_size)[:, None] == tf.constant(self.undrawable_ids, tf.int32),
            1,
        )
        return tf.where(forbidden, -float("inf"), logits), caches


def translate_ids(
    translator: Translator,
    sources: Sequence[np.ndarray],
    max_new_tokens: int,
    beams: int = 1,
    length_penalty: float = 1.0,
) -> list[np.ndarray]:
    """Translates any number of sentences, those alike in length together.

    Args:
      translator: the translator.
      sources: int32[S] each, end tokens included, S ≤ max_len.
      max_new_tokens, beams, length_penalty: see `Translator.translation`.
    Returns:
      int32[T] each, without end tokens.
    """
    found: list[np.ndarray] = [np.zeros(0, np.int32)] * len(sources)
    by_length = np.argsort([len(source) for source in sources], kind="stable")
    at_once = max(1, ROWS_AT_ONCE // beams)
    for start in range(0, len(sources), at_once):
        numbers = by_length[start : start + at_once]
        lengths = [len(sources[number]) for number in numbers]
        source_ids = np.full((len(numbers), max(lengths)), translator.end_id, np.int32)
        for row, number in zip(source_ids, numbers, strict=True):
            row[: len(sources[number])] = sources[number]
        new_ids, new_lengths = translator.translation(
            tf.constant(source_ids),
            tf.constant(lengths, tf.int32),
            tf.constant(max_new_tokens, tf.int32),
            tf.constant(beams, tf.int32),
            tf.constant(length_penalty, tf.float32),
        )
        for number, row, length in zip(numbers, new_ids.numpy(), new_lengths.numpy(), strict=True):
            found[number] = row[:length]
    return found
