"""The plan of a training run: what would be trained, its memory, and its time by a probe of the speed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigpt.config import Config
from minigpt.config.loading import Overrides, as_strings
from minigpt.errors import naming_arguments
from minigpt.interrupts import stop_if_interrupted
from minigpt.models.lora import count_merged
from minigpt.models.memory_estimate import training_bytes
from minigpt.notices import LOGGER
from minigpt.runs.run import Run
from minigpt.training.messages import in_lines, parameters_by_part, summary
from minigpt.training.pipeline import build_task, initial_model
from minigpt.training.start import new_training
from minigpt.training.strategy import Strategy, enough_memory, probe_speed, training_seconds


@dataclass(frozen=True)
class Plan:
    """The plan of a training run; docs/training.md, "Plans", describes the values.

    Attributes:
      values: what would be trained, as JSON values: text, tokens, model, training, parameters, origins,
        device; memory_bytes, a lower bound; seconds.
      lines: the summary for people, by subject.
    """

    values: Mapping[str, Any]
    lines: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Returns the plan as JSON values; the names are stable."""
        return dict(self.values)

    def in_words(self) -> str:
        """Returns one line per subject."""
        return in_lines(self.lines)


def plan(
    config: Config | Mapping[str, Any] | str | Path | None = None,
    run: str | Path | None = None,
    *,
    text: str | Path | Sequence[str | Path] | None = None,
    minutes: float | None = None,
    base: str | Path | Run | None = None,
    overrides: Overrides = (),
    name: str | None = None,
) -> Plan:
    """Says what `train` with the same arguments would train, and estimates its memory and its time.

    The text is read and the model is built, but not trained. A product of matrices is measured for a part
    of a second. The token ids are written to the cache folder, where `train` reads them. Nothing else is
    written.

    Args:
      config, run, text, minutes, base, overrides, name: as for `train`.
    Raises:
      UserError: as `train`.
      KeyboardInterrupt: after Ctrl-C.
    """
    with naming_arguments(minutes=minutes, base=base):
        given = as_strings(overrides, minutes)
        start = new_training(config, given, run, name, base=base, text=text)
    stop_if_interrupted()
    device = Strategy().set_up(start.config.training)
    corpus = start.open_corpus()
    task = build_task(start.config, corpus)
    train, val, tokenizer = corpus.train, corpus.val, corpus.tokenizer
    with enough_memory(task.config, tokenizer.vocab_size):
        model = initial_model(task)
    assert start.completed
    for line in start.completed.in_words(tokenizer.vocab_size):
        LOGGER.info("%s", line)
    seconds = training_seconds(task, probe_speed(task.config.training)[0])
    memory = sum(training_bytes(task.config, tokenizer.vocab_size))
    training = task.config.training
    batches = training.epochs * training.updates_per_epoch * training.accumulate_steps
    lines = summary(task, model, device, seconds) | {
        "Memory": f"at least {memory / 1e6:,.0f} MB for weights, gradients, optimizer and a batch, "
        "and 1 to 2 GB for TensorFlow and what it compiles"
    }
    limit = 60 * training.max_minutes if training.max_minutes else None
    return Plan(
        {
            "text": {
                "source": task.config.data.source,
                "paths": list(getattr(task.config.data, "paths", ())),
                "train_bytes": train.bytes,
                "val_bytes": val.bytes,
                "train_documents": train.documents,
                "val_documents": val.documents,
                "duplicates": corpus.duplicates,
                "split": task.split,
            },
            "tokens": {
                "train_tokens": train.tokens,
                "val_tokens": val.tokens,
                "kind": tokenizer.kind,
                "vocab_size": tokenizer.vocab_size,
                "bytes_per_token": round(train.bytes / train.tokens, 4),
            },
            "model": task.config.model.model_dump(),
            "training": {
                "epochs": training.epochs,
                "steps_per_epoch": training.steps_per_epoch,
                "batch_size": training.batch_size,
                "accumulate_steps": training.accumulate_steps,
                "sequence_length": task.sequence_length,
                "max_minutes": training.max_minutes,
                "tokens": round(batches * task.tokens_per_batch),
                "passes": round(batches / task.batches_in_pass, 3),
            },
            "parameters": parameters_by_part(model) | {"total": count_merged(model)},
            "origins": dict(start.completed.origins),
            "init_from": training.init_from,
            "bits_before_training": start.completed.bits,
            "device": device,
            "memory_bytes": memory,
            "seconds": round(min(seconds, limit or seconds), 1),
        },
        lines,
    )
