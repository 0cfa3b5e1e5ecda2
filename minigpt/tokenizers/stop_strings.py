"""Stop strings: they end a text and are not part of it.

If a text contains several, it is cut at the one that is completed first. If several are completed at the
same character, it is cut at the longest. Appending to a text never changes where it is cut.
"""

from collections.abc import Sequence


def find_stop(text: str, stops: Sequence[str]) -> int | None:
    """Returns the index where `text` is cut, or None if it contains no stop string.

    Args:
      text: any string.
      stops: stop strings; an empty one has no effect.
    """
    starts = [(text.find(stop), len(stop)) for stop in stops if stop]
    matches = [(start + length, start) for start, length in starts if start >= 0]
    return min(matches)[1] if matches else None


def partial_stop_length(text: str, stops: Sequence[str]) -> int:
    """Returns the length of the longest end of `text` that may be the start of a stop string."""
    lengths = (n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n]))
    return max(lengths, default=0)
