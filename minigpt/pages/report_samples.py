"""The samples of a run, by prompt: of many epochs some, so that a report stays small."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from minigpt.runs.records import count, read_lines, spread, texts

_MOST_EPOCHS, _MOST_PROMPTS = 60, 20
_TEXT_CHARACTERS = 4000
# Of the texts of all samples, as JSON.
_MOST_BYTES = 600_000
_NAMES = ("prompt", "source", "reference", "text")


def samples_by_prompt(
    file: Path, best_epoch: int | None, only_best: bool = False
) -> list[dict[str, Any]]:
    """Returns a dictionary for each prompt, or each source sentence, in the order of the file.

    Args:
      file: samples.jsonl.
      best_epoch: an epoch whose samples are always shown.
      only_best: whether to return the samples of that epoch alone; of the last one if it has none.
    Returns:
      "prompt" or "source" and "reference", and "epochs": a list of {"epoch", "text"} in ascending order.
    """
    # The number tells samples with the same prompt apart.
    groups: dict[tuple[str, int], dict[str, Any]] = {}
    seen: dict[tuple[int, str], int] = defaultdict(int)
    written: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)
    for record in read_lines(file):
        epoch, found = count(record.get("epoch")), texts(record, _NAMES, _TEXT_CHARACTERS)
        if epoch is None or "text" not in found:
            continue
        name = found.get("source", found.get("prompt", ""))
        key = (name, seen[epoch, name])
        seen[epoch, name] += 1
        if key in groups or len(groups) < _MOST_PROMPTS:
            group = {name: found[name] for name in _NAMES[:3] if name in found}
            groups.setdefault(key, group)
            written[key][epoch] = found["text"]
    shown = _shown_epochs(written.values(), best_epoch, only_best)
    return [
        {
            **group,
            "epochs": [
                {"epoch": epoch, "text": written[key][epoch]}
                for epoch in sorted(written[key])
                if epoch in shown
            ],
        }
        for key, group in groups.items()
    ]


def _shown_epochs(
    written: Iterable[dict[int, str]], best_epoch: int | None, only_best: bool
) -> set[int]:
    sizes: dict[int, int] = defaultdict(int)
    for by_epoch in written:
        for epoch, text in by_epoch.items():
            # JSON has six characters for each that is not in ASCII.
            sizes[epoch] += len(text) if text.isascii() else 6 * len(text)
    epochs = sorted(sizes)
    if not epochs:
        return set()
    best = best_epoch if best_epoch in sizes else epochs[-1]
    if only_best:
        return {best}
    most = max(2, min(_MOST_EPOCHS, _MOST_BYTES * len(epochs) // max(1, sum(sizes.values()))))
    return {*spread(epochs, most), best}
