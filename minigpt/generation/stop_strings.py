"""Where a text ends because a stop string came."""

import tensorflow as tf


def cut_at_stop(texts: tf.Tensor, stops: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Cuts each text before the stop string that is complete first, the longest if several are.

    What a longer text would be cut to does not change by its growing, so it may be cut at any time.

    Args:
      texts: string[B].
      stops: string[S]; an empty one stops nothing.
    Returns:
      string[B], and bool[B]: whether there was a stop string.
    """
    never = tf.int32.max
    lengths = tf.strings.length(texts)

    def place(stop: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """int32[B], int32[B]: where the first one starts and ends."""
        # The one that is put behind makes two parts of every text.
        parts = tf.strings.split(tf.strings.join([texts, stop]), stop, maxsplit=1)
        starts = tf.strings.length(parts[:, :1].flat_values)
        ends = starts + tf.strings.length(stop)
        # It may begin in the text and end in the one that was put behind.
        found = ends <= lengths
        return tf.where(found, starts, lengths), tf.where(found, ends, never)

    def nowhere(stop: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return lengths, tf.fill(tf.shape(texts), never)

    starts, ends = tf.map_fn(
        lambda stop: tf.cond(stop == "", lambda: nowhere(stop), lambda: place(stop)),
        # One that stops nothing, so that there is one.
        tf.concat([stops, [""]], 0),
        fn_output_signature=(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int32)),
    )
    first = tf.reduce_min(ends, axis=0)
    start = tf.reduce_min(tf.where(ends == first, starts, lengths), axis=0)
    return tf.strings.substr(texts, tf.zeros_like(start), start), first < never
