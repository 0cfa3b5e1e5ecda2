"""What a report shows of the certificates, the samples and the settings of a run.

The files may be damaged, or come from somebody else: the type and the length of each value are checked.
"""

import json
import os
import platform
from collections import defaultdict
from pathlib import Path
from typing import Any

import minigpt
from minigpt.config import Config
from minigpt.config.model import TransformerConfig
from minigpt.config.schema import STORIES_DEFAULTS, selector
from minigpt.config.section import Section
from minigpt.runs.checkpoints import best_state
from minigpt.runs.records import (
    count,
    mapping,
    number,
    read_lines,
    read_object,
    spread,
    text,
)
from minigpt.runs.run import Run

_MOST_CERTIFICATES, _MOST_PROBLEMS = 50, 10
_NAME_CHARACTERS, _PROBLEM_CHARACTERS = 300, 500


def certificate_values(run: Run) -> list[dict[str, Any]]:
    """Returns the recorded certificates, newest first.

    Args:
      run: the run.
    Returns:
      Every key; None stands for what is missing or has a wrong type. "is_current" says whether the best
      model of the run is still the one that was exported; None if that is not known.
    """
    found = [read_object(file) for file in run.certificates_folder.glob("*.json")]
    records = [record for record in found if isinstance(record.get("format"), str)]
    # Dates in ISO 8601 and UTC are sorted as strings.
    records.sort(key=lambda record: str(record.get("date")), reverse=True)
    best = best_state(run.checkpoints_folder) if records else None
    return [_values(record, best) for record in records[:_MOST_CERTIFICATES]]


def _values(record: dict[str, Any], best: dict[str, str] | None) -> dict[str, Any]:
    logits, bits, greedy, tokenizer, checkpoint = (
        mapping(record.get(name))
        for name in ("logits", "bits_per_byte", "greedy", "tokenizer", "checkpoint")
    )
    sha256, problems = checkpoint.get("sha256"), record.get("problems")
    if isinstance(problems, list):
        sentences = [text(each, _PROBLEM_CHARACTERS) for each in problems[:_MOST_PROBLEMS]]
        problems = [sentence for sentence in sentences if sentence is not None]
    else:
        problems = None
    return {
        **{
            name: text(record.get(name), _NAME_CHARACTERS)
            for name in ("name", "format", "weights", "date")
        },
        "bytes": count(record.get("bytes")),
        "has_logits": bool(logits),
        "largest_difference": number(logits.get("largest_difference")),
        "same_texts": count(greedy.get("same_texts")),
        "prompts": count(greedy.get("prompts")),
        "source_bits": number(bits.get("source")),
        "export_bits": number(bits.get("export")),
        "compared_tokens": count(logits.get("tokens")),
        "compared_text": text(record.get("text"), _NAME_CHARACTERS),
        "same_lines": count(tokenizer.get("same")),
        "lines": count(tokenizer.get("lines")),
        "tokens_per_second": number(record.get("tokens_per_second")),
        "problems": problems,
        "checkpoint": text(checkpoint.get("name"), _NAME_CHARACTERS),
        "is_current": sha256 == best["sha256"] if best and isinstance(sha256, str) else None,
    }


_MOST_EPOCHS, _MOST_PROMPTS = 40, 20
_TEXT_CHARACTERS = 4000
_NAMES = ("prompt", "source", "reference", "text")


def samples_by_prompt(
    file: Path, best_epoch: float | None, only_best: bool = False
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
    seen: dict[tuple[float, str], int] = defaultdict(int)
    written: dict[tuple[str, int], dict[float, str]] = defaultdict(dict)
    for record in read_lines(file):
        epoch = number(record.get("epoch"))
        cut = {name: text(record.get(name), _TEXT_CHARACTERS) for name in _NAMES}
        found = {name: value for name, value in cut.items() if value is not None}
        if epoch is None or epoch < 0 or "text" not in found:
            continue
        name = found.get("source", found.get("prompt", ""))
        key = (name, seen[epoch, name])
        seen[epoch, name] += 1
        if key in groups or len(groups) < _MOST_PROMPTS:
            group = {name: found[name] for name in _NAMES[:3] if name in found}
            groups.setdefault(key, group)
            written[key][epoch] = found["text"]
    epochs = sorted({epoch for by_epoch in written.values() for epoch in by_epoch})
    best = best_epoch if best_epoch in epochs else max(epochs, default=None)
    shown = {best} if only_best else {*spread(epochs, _MOST_EPOCHS), best}
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


_VALUE_CHARACTERS = 1000


def setting_rows(config: Config) -> list[dict[str, Any]]:
    """Returns {"name": "SECTION.KEY", "value", "differs"} for each setting of a run.

    `training.step_limits`, which training records, is left out. `differs` says whether the value is another
    one than without the setting. Folders are left out of paths: a report may be given to somebody else.
    """
    defaults = {section: _defaults(config, section) for section in type(config).model_fields}
    rows = []
    for name, value in config.settings("json").items():
        section, _, key = name.partition(".")
        if name == "training.step_limits":
            continue
        shown = _without_folders(value) if key in ("paths", "val_paths", "init_from") else value
        rows.append(
            {
                "name": name,
                "value": text(json.dumps(shown, ensure_ascii=False), _VALUE_CHARACTERS),
                "differs": value is not None and value != defaults[section].get(key),
            }
        )
    return rows


def _defaults(config: Config, section: str) -> dict[str, Any]:
    """Returns the values of a section that sets nothing but what others follow from."""
    values: Section = getattr(config, section)
    fields = type(values).model_fields
    defaults = {
        key: field.get_default(call_default_factory=True)
        for key, field in fields.items()
        if not field.is_required()
    }
    if isinstance(values, TransformerConfig):
        chosen = values.model_dump(include={"block", "embed_dim", "num_heads"})
        followed = type(values).model_validate(chosen).resolved().model_dump(mode="json")
        defaults = followed | {key: defaults[key] for key in chosen}
    if config.data.source == "stories":
        defaults |= STORIES_DEFAULTS.get(section, {})
    if choice := selector(section):
        first = type(getattr(Config(), section))
        defaults[choice] = first.model_fields[choice].default
    return defaults


def _without_folders(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_folders(item) for item in value]
    return value if not isinstance(value, str) or "://" in value else Path(value).name or value


def environment(device: str | None) -> list[tuple[str, str]]:
    """Returns names and values: the program that wrote the report, and the device used for training."""
    machine = f"{platform.system()} on {platform.machine()}, {os.cpu_count()} processors"
    return [
        ("Device of the training", device or "not recorded"),
        ("Report written by", f"minigpt {minigpt.__version__}, Python {platform.python_version()}"),
        ("Report written on", machine),
    ]
