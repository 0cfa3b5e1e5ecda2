"""Measurements of memorization for pages: the type and the length of each value are checked."""

from typing import Any

from minigpt.runs.records import count, counts, items, mapping, mappings, numbers, texts

_MOST_SAMPLES, _SAMPLE_CHARACTERS, _MOST_COPIED = 30, 6000, 500
_SENTENCE_CHARACTERS = 2000


def memorization_values(value: Any) -> dict[str, Any]:
    """Returns what was measured of the best and of the last state; a state is left out if it was not."""
    measured = mapping(value)
    return {
        state: _memorization(measured[state])
        for state in ("best", "last")
        if isinstance(measured.get(state), dict)
    }


def _memorization(measured: dict[str, Any]) -> dict[str, Any]:
    longest = mapping(measured.get("longest"))
    samples = mappings(measured.get("samples"), _MOST_SAMPLES)
    return {
        **counts(measured, ("epoch", "step", "tokens", "words")),
        **numbers(measured, ("share", "held_out_share")),
        "longest": {
            **texts(longest, ("text", "description"), _SENTENCE_CHARACTERS),
            **counts(longest, ("words", "characters")),
        }
        if isinstance(longest.get("text"), str)
        else None,
        "samples": [_sample(sample) for sample in samples if isinstance(sample.get("text"), str)],
    }


def _sample(sample: dict[str, Any]) -> dict[str, Any]:
    """Returns a sample with its copied passages: ranges within the text, in order, that do not overlap."""
    found = texts(sample, ("prompt", "text"), _SAMPLE_CHARACTERS)
    length = min(len(sample["text"]), _SAMPLE_CHARACTERS)
    ranges: list[list[int]] = []
    for pair in sorted(_ranges(sample.get("copied"))):
        start = max(pair[0], ranges[-1][1] if ranges else 0)
        end = min(pair[1], length)
        if start < end:
            ranges.append([start, end])
    return {**found, "copied": ranges}


def _ranges(values: Any) -> list[list[int]]:
    return [
        pair
        for pair in items(values, _MOST_COPIED)
        if isinstance(pair, list) and len(pair) == 2 and None not in map(count, pair)
    ]
