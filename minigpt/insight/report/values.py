"""What a report shows of the files of a run: the type and the length of each value are checked."""

import functools
import json
import os
import platform
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

import minigpt
from minigpt.config.model import TransformerConfig
from minigpt.config.schema import SECTIONS, STORIES_DEFAULTS, selector, variants
from minigpt.config.section import UNSET, Section
from minigpt.insight.analysis import TITLES, runnable
from minigpt.insight.baselines import COMPRESSION, NGRAMS
from minigpt.pages.memorization_values import memorization_values
from minigpt.runs.checkpoints import best_state
from minigpt.runs.records import (
    count,
    counts,
    items,
    mapping,
    mappings,
    number,
    numbers,
    read_lines,
    read_object,
    spread,
    text,
    texts,
)
from minigpt.runs.run import Run
from minigpt.storage.files import read_file

STATES = ("training", "finished", "interrupted", "failed")
_BASELINES = ("uniform", "unigram", "bigram", *NGRAMS, *COMPRESSION)
_MOST_GROUPS, _MOST_VERDICTS, _MOST_FINDINGS = 200, 30, 50
_MOST_PASSAGES, _MOST_TOKENS, _TOKEN_CHARACTERS = 10, 400, 100
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
    return {
        "state": state if state in STATES else None,
        "written": number(content.get("written")),
        "version": text(content.get("version"), 100),
        "tokens_per_step": number(content.get("tokens_per_step")),
        "planned_steps": count(content.get("planned_steps")),
        "resumed_at": [
            step
            for step in items(content.get("resumed_at"), _MOST_GROUPS)
            if count(step) is not None
        ],
        "baselines": _baselines(mapping(content.get("baselines"))),
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


def _baselines(recorded: dict[str, Any]) -> dict[str, float | None]:
    found = numbers(recorded, _BASELINES)
    if found["ppmd_bits_per_byte"] is None:
        # Earlier versions compressed the held-out text alone.
        found.update(dict.fromkeys(COMPRESSION))
    return found


def _verdicts(value: Any, run: str) -> list[dict[str, str]] | None:
    """Returns the verdicts. An unknown one, of a later version, has its id as its title."""
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
        {**counts(record, ("from", "to", "tokens")), "loss": number(record.get("loss"))}
        for record in mappings(value, _MOST_GROUPS)
    ]
    return [group for group in groups if group["from"] is not None and group["loss"] is not None]


def _passages(value: Any) -> list[dict[str, Any]]:
    passages = []
    for record in mappings(value, _MOST_PASSAGES):
        pairs = [
            (text(pair[0], _TOKEN_CHARACTERS), number(pair[1]))
            for pair in items(record.get("tokens"), _MOST_TOKENS)
            if isinstance(pair, list) and len(pair) == 2
        ]
        found: list[list[Any]] = [
            [token, loss] for token, loss in pairs if token is not None and loss is not None
        ]
        # A pair is shown whole; other passages were cut anywhere.
        shown = found if "source" in record else _from_a_word(found)
        if shown:
            mean = sum((loss for _, loss in shown), 0.0) / len(shown)
            source = texts(record, ("source",), _SENTENCE_CHARACTERS)
            passages.append({**source, "loss": number(mean), "tokens": shown})
    return passages


def _from_a_word(tokens: list[list[Any]]) -> list[list[Any]]:
    """Returns a passage from its first word; all of it if none begins in its first half."""
    before = ""
    for at, (token, _) in enumerate(tokens[: (len(tokens) + 1) // 2]):
        follows = token[:1].isspace() or before[-1:].isspace() or before == "<end>"
        if token == "<end>" or (follows and token.strip()):
            return tokens[at:]
        before = token
    return tokens


_MOST_CERTIFICATES, _MOST_PROBLEMS = 50, 10
_NAME_CHARACTERS, _PROBLEM_CHARACTERS = 300, 500


def certificate_values(run: Run) -> list[dict[str, Any]]:
    """Returns the recorded certificates, newest first.

    Args:
      run: the run. Its files may be damaged, or come from somebody else.
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
    sentences = [
        sentence
        for problem in items(problems, _MOST_PROBLEMS)
        if (sentence := text(problem, _PROBLEM_CHARACTERS)) is not None
    ]
    return {
        **{
            name: text(record.get(name), _NAME_CHARACTERS) for name in ("name", "format", "weights")
        },
        "date": text(record.get("date"), 40),
        "bytes": count(record.get("bytes")),
        "has_logits": bool(logits),
        "largest_difference": number(logits.get("largest_difference")),
        **counts(greedy, ("same_texts", "prompts")),
        "source_bits": number(bits.get("source")),
        "export_bits": number(bits.get("export")),
        "compared_tokens": count(logits.get("tokens")),
        "compared_text": text(record.get("text"), _NAME_CHARACTERS),
        "same_lines": count(tokenizer.get("same")),
        "lines": count(tokenizer.get("lines")),
        "tokens_per_second": number(record.get("tokens_per_second")),
        "problems": sentences if isinstance(problems, list) else None,
        "checkpoint": text(checkpoint.get("name"), 100),
        "is_current": sha256 == best["sha256"] if best and isinstance(sha256, str) else None,
    }


_MOST_EPOCHS, _MOST_PROMPTS = 60, 20
_TEXT_CHARACTERS = 4000
# The size of the texts of all samples, as JSON.
_MOST_BYTES = 600_000
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
        epoch, found = number(record.get("epoch")), texts(record, _NAMES, _TEXT_CHARACTERS)
        if epoch is None or epoch < 0 or "text" not in found:
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
    written: Iterable[dict[float, str]], best_epoch: float | None, only_best: bool
) -> set[float]:
    sizes: dict[float, int] = defaultdict(int)
    for by_epoch in written:
        for epoch, sample in by_epoch.items():
            # JSON has six characters for each that is not in ASCII.
            sizes[epoch] += len(sample) if sample.isascii() else 6 * len(sample)
    epochs = sorted(sizes)
    if not epochs:
        return set()
    best = best_epoch if best_epoch in sizes else epochs[-1]
    if only_best:
        return {best}
    most = max(2, min(_MOST_EPOCHS, _MOST_BYTES * len(epochs) // max(1, sum(sizes.values()))))
    return {*spread(epochs, most), best}


_MAX_FILE_BYTES = 1_000_000
_VALUE_CHARACTERS = 1000
_MOST_SETTINGS = 300
# A distribution of TensorFlow has one of these names.
_TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly")


class RunSettings(NamedTuple):
    """A config.toml.

    Attributes:
      sections: its sections as they are.
      rows: {"name": "SECTION.KEY", "value", "differs"} for every setting but `training.step_limits`, which
        training records. `differs` says whether the value differs from the default; None if that is not
        known. Folders are left out of paths, because a report may be given to somebody else.
    """

    sections: dict[str, dict[str, Any]]
    rows: list[dict[str, Any]]


def read_settings(config_file: Path) -> RunSettings:
    """Reads the settings of a run; none if the file is missing or damaged."""
    try:
        return _settings(read_file(config_file, _MAX_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return RunSettings({}, [])


# The report is written after every epoch, with the same configuration.
@functools.lru_cache(maxsize=4)
def _settings(content: bytes) -> RunSettings:
    values = tomllib.loads(content.decode())
    sections = {section: mapping(values.get(section)) for section in SECTIONS}
    names = [(section, key) for section, settings in sections.items() for key in settings]
    names = [name for name in names if name != ("training", "step_limits")]
    return RunSettings(sections, [_row(sections, *name) for name in names[:_MOST_SETTINGS]])


def _row(sections: dict[str, dict[str, Any]], section: str, key: str) -> dict[str, Any]:
    values = sections[section]
    value = values[key]
    shown = _without_folders(value) if key in ("paths", "init_from") else value
    # Each setting is compared by checking its section: one with thousands of settings is no configuration.
    differs = _differs(sections, section, key) if len(values) <= _MOST_SETTINGS else None
    return {
        "name": text(f"{section}.{key}", 200),
        # TOML has dates, which JSON has not.
        "value": text(json.dumps(shown, ensure_ascii=False, default=str), _VALUE_CHARACTERS),
        "differs": differs,
    }


def _without_folders(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_folders(item) for item in value]
    return value if not isinstance(value, str) or "://" in value else Path(value).name or value


def _differs(sections: dict[str, dict[str, Any]], section: str, key: str) -> bool | None:
    values, choice, kinds = sections[section], selector(section), variants(section)
    is_stories = sections["data"].get("source", "stories") == "stories"
    defaults = STORIES_DEFAULTS.get(section, {}) if is_stories else {}
    try:
        if key == choice:
            return bool(values[key] != next(iter(kinds)))
        kind = kinds[values.get(choice)] if choice else kinds[None]
        if key in defaults:
            return bool(values[key] != defaults[key])
        rest = {name: value for name, value in values.items() if name != key}
        try:
            default = _resolved(kind, rest, key)
        except ValidationError:
            kind.model_validate(values)
            return True  # A setting that cannot be left out.
        return bool(default != (None if values[key] == UNSET else values[key]))
    except (KeyError, TypeError, AttributeError, ValidationError):
        return None


def _resolved(kind: type[Section], values: dict[str, Any], key: str) -> Any:
    """Returns the value that a setting has when it is left out."""
    section = kind.model_validate(values)
    resolved = section.resolved() if isinstance(section, TransformerConfig) else section
    return getattr(resolved, key)


def environment(device: str | None) -> list[tuple[str, str]]:
    """Returns names and values: the programs that wrote the report, and the device used for training."""
    return [("Device of the training", device or "not recorded"), *_versions()]


@functools.cache
def _versions() -> list[tuple[str, str]]:
    machine = f"{platform.uname()[0]} on {platform.machine()}, {os.cpu_count()} processors"
    return [
        ("Report written by", f"minigpt {minigpt.__version__}"),
        ("Report written on", machine),
        ("Python", platform.python_version()),
        ("TensorFlow", _version(*_TENSORFLOW)),
        ("Keras", _version("keras")),
    ]


def _version(*names: str) -> str:
    """Returns the version of an installed distribution, without importing it."""
    for name in names:
        module = sys.modules.get(name)
        try:
            return str(getattr(module, "__version__", None) or metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
    return "not installed"
