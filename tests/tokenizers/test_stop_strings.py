"""Stop strings, against a search character by character."""

import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt.tokenizers.graph.graph_tokenizer import cut_at_stop
from minigpt.tokenizers.vocabulary import find_stop

CUT = tf.function(cut_at_stop, reduce_retracing=True)


def cut(texts, stops):
    found = CUT(tf.constant(texts, tf.string), tf.constant(stops, tf.string))
    return [text.decode() for text in found[0].numpy()], found[1].numpy().tolist()


def by_growing(text, stops):
    """Adds one character at a time and checks whether the text ends with a stop string."""
    for length in range(1, len(text) + 1):
        ending = [stop for stop in stops if stop and text[:length].endswith(stop)]
        if ending:
            return text[: length - max(map(len, ending))], True
    return text, False


# The first call traces the graph.
@settings(deadline=None)
@given(
    st.lists(st.text("ab\n.é\0", max_size=12), max_size=4),
    st.lists(st.text("ab\n.é\0", max_size=3), max_size=3),
)
def test_cuts_before_the_stop_string_that_is_complete_first(texts, stops):
    expected = [by_growing(text, stops) for text in texts]
    assert cut(texts, stops) == ([text for text, _ in expected], [found for _, found in expected])
    in_python = [find_stop(text, stops) for text in texts]
    assert in_python == [len(text) if found else None for text, found in expected]
