"""Cutting texts at stop strings in a graph, with the result of `minigpt.tokenizers.continuation`."""

import tensorflow as tf


def cut_at_stop(texts: tf.Tensor, stops: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Cuts texts at their stop strings, in a graph.

    Args:
      texts: string[B].
      stops: string[S]; an empty one has no effect.
    Returns:
      string[B], and bool[B]: whether a text contains a stop string.
    """
    no_match = tf.int32.max
    lengths = tf.strings.length(texts)

    def find(stop: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """int32[B], int32[B]: start and end of the first match."""
        # With the stop string appended, every text splits into two parts.
        parts = tf.strings.split(tf.strings.join([texts, stop]), stop, maxsplit=1)
        starts = tf.strings.length(parts[:, :1].flat_values)
        ends = starts + tf.strings.length(stop)
        # A match may start in the text and end in the appended string.
        found = ends <= lengths
        return tf.where(found, starts, lengths), tf.where(found, ends, no_match)

    def find_nothing(stop: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return lengths, tf.fill(tf.shape(texts), no_match)

    starts, ends = tf.map_fn(
        lambda stop: tf.cond(stop == "", lambda: find_nothing(stop), lambda: find(stop)),
        # An empty stop string is appended, so that reduce_min has an entry.
        tf.concat([stops, [""]], 0),
        fn_output_signature=(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int32)),
    )
    first = tf.reduce_min(ends, axis=0)
    start = tf.reduce_min(tf.where(ends == first, starts, lengths), axis=0)
    return tf.strings.substr(texts, tf.zeros_like(start), start), first < no_match
