"""analysis.json as pages show it: every value has its type, and no list or text is long."""

from pathlib import Path
from typing import Any

from minigpt.insight.verdict import TITLES, runnable
from minigpt.runs.records import (
    count,
    mapping,
    mappings,
    number,
    numbers,
    read_object,
    text,
    texts,
)

STATES = ("training", "finished", "interrupted", "failed")
_BASELINES = ("uniform", "unigram", "bigram", "xz_bits_per_byte", "zstd_bits_per_byte")
_MOST_GROUPS, _MOST_VERDICTS, _MOST_FINDINGS = 200, 30, 50
_MOST_PASSAGES, _MOST_TOKENS, _TOKEN_CHARACTERS = 10, 400, 100
_MOST_SAMPLES, _SAMPLE_CHARACTERS, _MOST_COPIED = 30, 6000, 500
_SENTENCE_CHARACTERS = 2000


def analysis_values(folder: Path) -> dict[str, Any]:
    """Returns the content of a run's analysis.json.

    Args:
      folder: the run directory.
    Returns:
      Every key of the file. None, or an empty dictionary, stands for what is missing or has a wrong type.
      An empty list of verdicts or findings says that there is none; None, that nothing was examined.
    """
    content = read_object(folder / "analysis.json")
    state = content.get("state")
    resumed = content.get("resumed_at")
    return {
        "state": state if state in STATES else None,
        "written": number(content.get("written")),
        "version": text(content.get("version"), 100),
        "tokens_per_step": number(content.get("tokens_per_step")),
        "planned_steps": count(content.get("planned_steps")),
        "resumed_at": [
            step
            for step in (resumed if isinstance(resumed, list) else [])[:_MOST_GROUPS]
            if count(step) is not None
        ],
        "baselines": numbers(mapping(content.get("baselines")), _BASELINES),
        "bytes_per_token": _positive(content.get("bytes_per_token")),
        "positions": _groups(content.get("positions")),
        "frequencies": _groups(content.get("frequencies")),
        "passages": {
            kind: _passages(mapping(content.get("passages")).get(kind))
            for kind in ("hardest", "easiest")
        },
        "memorization": memorization_values(content.get("memorization")),
        "text": _sentences(content.get("text"), ("kind", "evidence"), _MOST_FINDINGS),
        "sweep": [
            point
            for record in mappings(content.get("sweep"), _MOST_GROUPS)
            if None not in (point := numbers(record, ("learning_rate", "loss"))).values()
        ],
        "verdicts": _verdicts(content.get("verdicts"), folder.absolute().name),
    }


def _verdicts(value: Any, run: str) -> list[dict[str, str]] | None:
    """A verdict of a later version, which is not known here, has its id as its title."""
    records = _sentences(value, ("id", "evidence", "action"), _MOST_VERDICTS)
    if records is None:
        return None
    return [
        {
            "title": TITLES.get(record["id"], record["id"].replace("_", " ")),
            **record,
            # Without the folders of the user: the page can be given to others.
            **({"action": runnable(record["action"], run)} if "action" in record else {}),
        }
        for record in records
    ]


def _positive(value: Any) -> float | int | None:
    found = number(value)
    return found if found is not None and found > 0 else None


def _sentences(value: Any, names: tuple[str, ...], most: int) -> list[dict[str, str]] | None:
    """Returns records of texts, the first of which is an identifier; None if there is no list."""
    if not isinstance(value, list):
        return None
    records = [texts(record, names, _SENTENCE_CHARACTERS) for record in mappings(value, most)]
    return [record for record in records if names[0] in record]


def _groups(value: Any) -> list[dict[str, Any]]:
    """Returns the groups of tokens that have a loss."""
    groups = [
        {
            **{name: count(record.get(name)) for name in ("from", "to", "tokens")},
            "loss": number(record.get("loss")),
        }
        for record in mappings(value, _MOST_GROUPS)
    ]
    return [group for group in groups if group["from"] is not None and group["loss"] is not None]


def _passages(value: Any) -> list[dict[str, Any]]:
    passages = []
    for record in mappings(value, _MOST_PASSAGES):
        tokens = record.get("tokens")
        pairs = [
            (text(pair[0], _TOKEN_CHARACTERS), number(pair[1]))
            for pair in (tokens if isinstance(tokens, list) else [])[:_MOST_TOKENS]
            if isinstance(pair, list) and len(pair) == 2
        ]
        found = [[token, loss] for token, loss in pairs if token is not None and loss is not None]
        if found:
            passages.append({"loss": number(record.get("loss")), "tokens": found})
    return passages


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
        **{name: count(measured.get(name)) for name in ("epoch", "step", "tokens", "words")},
        **numbers(measured, ("share", "held_out_share")),
        "longest": {
            **texts(longest, ("text", "description"), _SENTENCE_CHARACTERS),
            "words": count(longest.get("words")),
            "characters": count(longest.get("characters")),
        }
        if isinstance(longest.get("text"), str)
        else None,
        "samples": [_sample(sample) for sample in samples if isinstance(sample.get("text"), str)],
    }


def _sample(sample: dict[str, Any]) -> dict[str, Any]:
    """Returns a sample with its copied passages: ranges within the text, in order, that do not overlap."""
    found = texts(sample, ("prompt", "text"), _SAMPLE_CHARACTERS)
    length = min(len(sample["text"]), _SAMPLE_CHARACTERS)
    copied = sample.get("copied")
    ranges: list[list[int]] = []
    for pair in sorted(_ranges(copied if isinstance(copied, list) else [])):
        start = max(pair[0], ranges[-1][1] if ranges else 0)
        end = min(pair[1], length)
        if start < end:
            ranges.append([start, end])
    return {**found, "copied": ranges}


def _ranges(values: list[Any]) -> list[list[int]]:
    return [
        pair
        for pair in values[:_MOST_COPIED]
        if isinstance(pair, list) and len(pair) == 2 and None not in map(count, pair)
    ]
