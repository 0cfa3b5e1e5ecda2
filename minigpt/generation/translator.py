"""Translator: source ids to target ids, greedily or by beam search."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import tensorflow as tf

from minigpt.generation.beam_search import beam_search
from minigpt.generation.decoding_loop import decode, initial_state, is_unfinished, new_ids, padded
from minigpt.generation.sampling import ban
from minigpt.generation.step_models import newest_tokens
from minigpt.models import EncoderDecoder
from minigpt.tokenizers.base import Tokenizer

# Targets that are decoded together: larger batches are hardly faster.
BATCH_ROWS = 256


class Translator(tf.Module):
    """Generates the most probable targets of a model, whose weights are read at every call.

    The tokenizer has the end token, the decoder's first input, and the ids that are never generated.
    """

    def __init__(self, model: EncoderDecoder, tokenizer: Tokenizer) -> None:
        super().__init__(name="translator")
        self.model = model
        self.end_id, self.start_id = tokenizer.end_id, tokenizer.start_id
        self.never_sampled_ids = sorted(set(tokenizer.never_sampled_ids))

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
    def translate(self, source_ids, source_lengths, max_new_tokens, beams, length_penalty):  # type: ignore[no-untyped-def]
        """Generates a target for every source, up to its end token.

        Args:
          source_ids: int32[B, S], end tokens included, S ≤ max_len, right-padded with any ids.
          source_lengths: int32[B], each 1 or more.
          max_new_tokens: int32[]; values above max_len count as max_len.
          beams: int32[]; 1 or less is greedy; larger values are the width of the beam search.
          length_penalty: float32[], for the beam search; see `beam_search`.
        Returns:
          int32[B, N] with N ≤ max_new_tokens, right-padded with the end token; and int32[B], the
          lengths without it.
        """
        limit = tf.clip_by_value(max_new_tokens, 0, self.model.max_len)
        rows = tf.size(source_lengths)
        source = self.model.encode(source_ids, source_lengths)
        starts, lengths = tf.fill([rows, 1], self.start_id), tf.ones([rows], tf.int32)
        caches = source, self.model.empty_caches(rows, limit)
        state = initial_state(starts, lengths, limit, 1 + limit, caches)
        never_sampled = tf.constant(self.never_sampled_ids, tf.int32)
        banned = tf.reduce_any(tf.range(self.model.vocab_size)[:, None] == never_sampled, 1)

        def step(token_ids, lengths, caches):  # type: ignore[no-untyped-def]
            source, caches = caches
            newest = newest_tokens(token_ids, lengths)
            latents, caches = self.model.call_with_cache(newest, source, caches, lengths - 1)
            return ban(self.model.logits(latents[:, 0]), banned), (source, caches)

        def greedy():  # type: ignore[no-untyped-def]
            def most_probable(logits, state):  # type: ignore[no-untyped-def]
                return tf.argmax(logits, axis=-1, output_type=tf.int32)

            unfinished = partial(is_unfinished, end=limit)
            final = decode(state, step, most_probable, self.end_id, unfinished)
            return new_ids(final), final.new_lengths

        def search():  # type: ignore[no-untyped-def]
            ids, lengths, _ = beam_search(state, step, beams, self.end_id, length_penalty)
            lengths = lengths[:, 0]
            return ids[:, 0, : tf.reduce_max(tf.concat([lengths, [0]], 0))], lengths

        return tf.cond(beams > 1, search, greedy)

    def translate_all(
        self,
        sources: Sequence[np.ndarray],
        max_new_tokens: int,
        beams: int = 1,
        length_penalty: float = 1.0,
    ) -> list[np.ndarray]:
        """Translates any number of sentences, in batches of similar length.

        Args:
          sources: int32[S] each, end tokens included, S ≤ max_len.
          max_new_tokens, beams, length_penalty: as for `translate`.
        Returns:
          int32[T] each, without end tokens.
        """
        targets: list[np.ndarray] = [np.zeros(0, np.int32)] * len(sources)
        by_length = np.argsort([len(source) for source in sources], kind="stable")
        penalty = tf.constant(length_penalty, tf.float32)
        rows_per_batch = max(1, BATCH_ROWS // beams)
        for start in range(0, len(sources), rows_per_batch):
            indices = by_length[start : start + rows_per_batch]
            batch = padded([sources[index] for index in indices])
            found = self.translate(*batch, max_new_tokens, beams, penalty)
            for index, row, length in zip(indices, *(x.numpy() for x in found), strict=True):
                targets[index] = row[:length]
        return targets
