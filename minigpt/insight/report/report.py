"""The report of a run, or of several: one HTML file, without a network."""

import functools
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import minigpt
from minigpt.config import Config
from minigpt.config.model import TransformerConfig
from minigpt.config.schema import STORIES_DEFAULTS, selector
from minigpt.config.section import Section
from minigpt.errors import UserError, as_path
from minigpt.pages.inlining import SHARED, json_element, template
from minigpt.runs import records
from minigpt.runs.analysis import Analysis, Baselines
from minigpt.runs.checkpoints import best_state
from minigpt.runs.run import Run, as_run
from minigpt.storage.atomic import replace_file

_MOST_EPOCHS, _MOST_STEPS, _MOST_SAMPLES = 1000, 800, 30
_METRICS = (
    *("step", "train_loss", "val_loss", "val_bits_per_byte", "val_bleu"),
    *("tokens_per_second", "seconds", "learning_rate"),
)
_SIZES = ("parameters", "train_bytes", "train_tokens", "val_tokens")
_MEASURED = ("seconds", "tokens_per_second", "learning_rate", "memory_bytes")


def report_facts(run: Run, comparison: bool = False) -> dict[str, Any]:
    """Returns the facts about a run as JSON values; null for what is not known.

    Its records may be damaged, or come from somebody else. `comparison` leaves out what a comparison of
    runs does not show.
    """
    known, recorded, name = run.analysis, run.facts, run.path.absolute().name
    try:
        config = run.config
    except UserError:
        config = None
    metrics = _metrics(run)
    scored = [record for record in metrics if record["val_loss"] is not None]
    best = min(scored, key=lambda record: record["val_loss"])["epoch"] if scored else None
    if known.state is None and run.model_file.is_file():
        known = replace(known, state="finished")
    if known.baselines.uniform is None:
        known = replace(known, baselines=Baselines(**recorded.get("baselines", {})))
    if comparison:
        known = replace(known, positions=[], frequencies=[], passages={})
    samples = samples_by_prompt(run.samples_file, best, only_best=comparison)
    if config and config.data.source == "dialogues":
        # An answer begins on a line of its own.
        samples = [group | {"prompt": f"{group.get('prompt', '')}\n"} for group in samples]
    return {
        # Runs are in this folder unless the user says otherwise. Other folders are not shown.
        **_analysis_values(
            known, f"runs/{name}" if run.path.absolute().parent.name == "runs" else name
        ),
        "name": records.text(name, 300),
        "kind": config.model.kind if config else "gpt",
        **{name: recorded.get(name) for name in _SIZES},
        "description": records.text(recorded.get("text"), 2000),
        "base": records.text(Path(config.training.init_from or "").name, 300) if config else None,
        "best_epoch": best,
        "metrics": records.spread(metrics, _MOST_EPOCHS),
        "epochs": sum(isinstance(e := record["epoch"], int) and e > 0 for record in metrics),
        "steps": [] if comparison else _steps(run),
        "samples": samples,
        "certificates": certificate_values(run),
        "settings": setting_rows(config) if config else [],
        "device": records.text(recorded.get("device"), 300),
    }


def _analysis_values(known: Analysis, name: str) -> dict[str, Any]:
    """Returns an analysis as JSON values, with the titles of its verdicts and less of its samples.

    `name` stands for the run in the commands of the verdicts: without the folders of the user, because the
    page can be given to others.
    """
    values = asdict(known)
    for measured in values["memorization"].values():
        del measured["samples"][_MOST_SAMPLES:]
    # None, if nothing was examined, is not an empty list.
    if known.verdicts is not None:
        values["verdicts"] = [
            {**verdict.as_dict(), "title": verdict.title, "action": verdict.runnable_action(name)}
            for verdict in known.verdicts
        ]
    return values


def _metrics(run: Run) -> list[dict[str, Any]]:
    """Returns the validations in order. If there are several lines about one, the last one counts."""
    by_epoch = {
        epoch: {"epoch": epoch, **records.numbers(record, _METRICS)}
        for record in records.read_lines(run.metrics_file)
        if (epoch := records.number(record.get("epoch"))) is not None and epoch >= 0
    }
    return [by_epoch[epoch] for epoch in sorted(by_epoch)]


def _steps(run: Run) -> list[dict[str, Any]]:
    """Returns the training loss of each interval of steps.jsonl, and what was measured at its end."""
    lines = records.interval_lines(records.read_lines(run.steps_file), _MOST_STEPS)
    return [{"step": line["step"], **records.numbers(line, ("loss", *_MEASURED))} for line in lines]


REPORT_FILE = "report.html"
_FOLDERS = (SHARED, Path(__file__).parent / "page")


def write_report(runs: Run | str | Path | Sequence[Run | str | Path], output: str | Path) -> None:
    """Writes the report of a run, or a comparison of several, whole or not at all.

    It reads the files in the run directories and loads no model. What is missing or damaged is left
    out. The report of a run in its own directory reloads itself while the run is trained.

    Args:
      runs: one run or more, or their directories.
      output: the file; an existing one is replaced. Its parents are created.
    Raises:
      UserError: there is no such run, or the file cannot be written.
      ValueError: `runs` is empty.
      TypeError: an argument has the wrong type.
    """
    output = as_path("output", output)
    opened = [
        as_run(run) for run in ([runs] if isinstance(runs, Run | str | os.PathLike) else runs)
    ]
    if not opened:
        raise ValueError("`runs` must contain at least one run.")
    compared = len(opened) > 1
    facts = [report_facts(run, compared) for run in opened]
    names = [str(run["name"]) for run in facts]
    title = f"Comparison of {len(names)} runs" if compared else f"{names[0]} – report"
    report = {
        "version": minigpt.__version__,
        "written": time.time(),
        "refreshes": not compared and output.resolve() == opened[0].report_file.resolve(),
        "runs": facts,
    }
    before, after = template(title, *_FOLDERS)
    page = f"{before}{json_element('report', report)}{after}"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, page.encode())
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {error.strerror or error}") from None


# The files may be damaged, or come from somebody else: the type and the length of each value are checked.
_MOST_CERTIFICATES, _MOST_PROBLEMS = 50, 10
_NAME_CHARACTERS, _PROBLEM_CHARACTERS = 300, 500
_name = functools.partial(records.text, most=_NAME_CHARACTERS)
# The keys of the page: the type of a value, and where a certificate has it.
_CERTIFICATE: dict[str, tuple[Callable[[Any], Any], str]] = {
    **{name: (_name, name) for name in ("name", "format", "weights", "date")},
    "bytes": (records.count, "bytes"),
    "has_logits": (bool, "logits"),
    "largest_difference": (records.number, "logits.largest_difference"),
    "same_texts": (records.count, "greedy.same_texts"),
    "prompts": (records.count, "greedy.prompts"),
    "source_bits": (records.number, "bits_per_byte.source"),
    "export_bits": (records.number, "bits_per_byte.export"),
    "compared_tokens": (records.count, "logits.tokens"),
    "compared_text": (_name, "text"),
    "same_lines": (records.count, "tokenizer.same"),
    "lines": (records.count, "tokenizer.lines"),
    "tokens_per_second": (records.number, "tokens_per_second"),
    "checkpoint": (_name, "checkpoint.name"),
}


def certificate_values(run: Run) -> list[dict[str, Any]]:
    """Returns the recorded certificates, newest first.

    Every key is there; None stands for what is missing or has a wrong type. "is_current" says whether the
    best model of the run is still the one that was exported; None if that is not known.
    """
    found = [records.read_object(file) for file in run.certificates_folder.glob("*.json")]
    valid = [record for record in found if isinstance(record.get("format"), str)]
    # Dates in ISO 8601 and UTC are sorted as strings.
    valid.sort(key=lambda record: str(record.get("date")), reverse=True)
    best = best_state(run.checkpoints_folder) if valid else None
    return [_certificate(record, best) for record in valid[:_MOST_CERTIFICATES]]


def _certificate(record: dict[str, Any], best: dict[str, str] | None) -> dict[str, Any]:
    def value(place: str) -> Any:
        part, _, key = place.rpartition(".")
        return records.mapping(record.get(part)).get(key) if part else record.get(key)

    sha256, problems = value("checkpoint.sha256"), record.get("problems")
    if isinstance(problems, list):
        sentences = (records.text(each, _PROBLEM_CHARACTERS) for each in problems[:_MOST_PROBLEMS])
        problems = [sentence for sentence in sentences if sentence is not None]
    return {
        **{name: kind(value(place)) for name, (kind, place) in _CERTIFICATE.items()},
        "problems": problems if isinstance(problems, list) else None,
        "is_current": sha256 == best["sha256"] if best and isinstance(sha256, str) else None,
    }


_MOST_SAMPLED_EPOCHS, _MOST_PROMPTS = 40, 20
_TEXT_CHARACTERS = 4000
_NAMES = ("prompt", "source", "reference", "text")


def samples_by_prompt(
    file: Path, best_epoch: float | None, only_best: bool = False
) -> list[dict[str, Any]]:
    """Returns a dictionary for each prompt, or each source sentence, in the order of samples.jsonl.

    Args:
      best_epoch: an epoch whose samples are always shown.
      only_best: whether to return the samples of that epoch alone; of the last one if it has none.
    Returns:
      "prompt" or "source" and "reference", and "epochs": a list of {"epoch", "text"} in ascending order.
    """
    groups: dict[tuple[str, int], dict[str, Any]] = {}
    seen: dict[tuple[float, str], int] = defaultdict(int)
    for record in records.read_lines(file):
        epoch = records.number(record.get("epoch"))
        cut = {name: records.text(record.get(name), _TEXT_CHARACTERS) for name in _NAMES}
        found = {name: value for name, value in cut.items() if value is not None}
        if epoch is None or epoch < 0 or "text" not in found:
            continue
        sample, name = found.pop("text"), found.get("source", found.get("prompt", ""))
        # The number tells samples with the same prompt apart.
        seen[epoch, name] += 1
        group = groups.setdefault((name, seen[epoch, name]), {**found, "epochs": {}})
        group["epochs"][epoch] = sample
    kept = list(groups.values())[:_MOST_PROMPTS]
    epochs = sorted({epoch for group in kept for epoch in group["epochs"]})
    best = best_epoch if best_epoch in epochs else max(epochs, default=None)
    shown = {best} if only_best else {*records.spread(epochs, _MOST_SAMPLED_EPOCHS), best}
    for group in kept:
        samples = sorted(group["epochs"].items())
        group["epochs"] = [{"epoch": e, "text": sample} for e, sample in samples if e in shown]
    return kept


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
        shown = _without_folders(value) if key in ("paths", "val_paths", "init_from") else value
        shown = records.text(json.dumps(shown, ensure_ascii=False), _VALUE_CHARACTERS)
        differs = value is not None and value != defaults[section].get(key)
        rows.append({"name": name, "value": shown, "differs": differs})
    return [row for row in rows if row["name"] != "training.step_limits"]


def _defaults(config: Config, section: str) -> dict[str, Any]:
    """Returns the values of a section that sets nothing but what others follow from."""
    values: Section = getattr(config, section)
    fields = type(values).model_fields.items()
    defaults = {
        key: field.get_default(call_default_factory=True)
        for key, field in fields
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
