"""Stop strings, against a search character by character."""

from hypothesis import given
from hypothesis import strategies as st

from minigpt.tokenizers.vocabulary import find_stop


@given(st.text("ab\n.é\0", max_size=12), st.lists(st.text("ab\n.é\0", max_size=3), max_size=3))
def test_cuts_before_the_stop_string_that_is_complete_first(text, stops):
    """Adds one character at a time and checks whether the text ends with a stop string."""
    expected = None
    for length in range(1, len(text) + 1):
        ending = [stop for stop in stops if stop and text[:length].endswith(stop)]
        if ending:
            expected = length - max(map(len, ending))
            break
    assert find_stop(text, stops) == expected
