"""The forecast of a training, for which a few steps of it are made and measured."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from minigpt.config import Config
from minigpt.config.fit import TextSize
from minigpt.corpus.store_files import Corpus
from minigpt.insight.forecast.alternatives import Measured, alternatives
from minigpt.insight.forecast.expected_loss import LossForecast
from minigpt.insight.forecast.forecast import Forecast
from minigpt.insight.forecast.measuring import measure
from minigpt.insight.forecast.training_time import Schedule, times
from minigpt.interrupts import stop_if_interrupted
from minigpt.models.lora import count_merged
from minigpt.training.device import enough_memory, set_up_device
from minigpt.training.new_training import NewTraining, new_training
from minigpt.training.pipeline import compile_model
from minigpt.training.process import peak_memory, reset_peak_memory
from minigpt.training.summary import parameters_by_part, summary_lines
from minigpt.training.tasks import build_task
from minigpt.training.tasks.task import Task


def plan(
    config: Config | Mapping[str, Any] | str | Path | None = None,
    run: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    name: str | None = None,
    command: str = "minigpt train",
    seconds_before: float = 0.0,
) -> Forecast:
    """Forecasts what `train` with the same arguments would take and give, and does nothing else.

    The model is built and compiled, trained for a few updates, validated on a part of the held-out text,
    saved and exported, in a temporary directory that is removed. This takes about as long as compiling and
    exporting, half a minute for a small model. The token ids are written to the cache folder, as a
    training does, which will read them.

    Args:
      config, run, overrides, name: as for `train`.
      command: how the user calls `train`, for the suggested commands.
      seconds_before: seconds before this call that the training would take too: of imports.
    Raises:
      UserError: as `train`.
      KeyboardInterrupt: after Ctrl-C; nothing is left but token ids.
    """
    began = time.perf_counter()
    start = new_training(config, overrides, run, name)
    stop_if_interrupted()
    device = set_up_device(start.config.training)
    corpus, not_repeated = _open_corpus(start)
    task = build_task(start.config, corpus)
    with enough_memory(task.config, corpus.tokenizer.vocab_size):
        model = start.build_model(task)
        compile_model(task, model)
        lines = summary_lines(task, model, device, start.fine_tuning)
        stop_if_interrupted()
        preparation = seconds_before + time.perf_counter() - began - not_repeated
        parameters = parameters_by_part(model) | {"total": count_merged(model)}
        with tempfile.TemporaryDirectory(prefix="minigpt-plan-") as folder:
            durations = measure(task, model, Path(folder))
    stop_if_interrupted()
    durations = replace(durations, preparation=preparation)
    found = times(durations, _schedule(task.config))
    losses = LossForecast(task)
    measured = Measured(
        given=start.given,
        config=task.config,
        text=_text_size(task),
        vocab_size=corpus.tokenizer.vocab_size,
        tokens_per_step=_tokens_per_step(task),
        bytes_per_token=losses.bytes_per_token,
        durations=durations,
    )
    trained = found.steps * measured.tokens_per_step
    return Forecast(
        text=_text(task),
        tokens=_tokens(task),
        model=task.config.model.model_dump(),
        training=_training(task, found.steps),
        parameters=parameters,
        memory_bytes=peak_memory() + _mapped_bytes(task, found.steps),
        times=found,
        loss=losses.expected(task.config, trained, losses.bytes_per_token),
        alternatives=alternatives(measured, command, losses.expected),
        device=device,
        lines=lines,
    )


def _open_corpus(start: NewTraining) -> tuple[Corpus, float]:
    """Returns the corpus, and the seconds that a training after this will not take: tokenizing."""
    began = time.perf_counter()
    corpus = start.open_corpus()
    if corpus.from_cache:
        return corpus, 0.0
    made = time.perf_counter()
    corpus = start.open_corpus()
    # Learning a tokenizer takes memory that the training will not need.
    reset_peak_memory()
    return corpus, made - began


def _schedule(config: Config) -> Schedule:
    training = config.training
    assert training.steps_per_epoch is not None  # Resolved.
    return Schedule(
        epochs=training.epochs,
        steps_per_epoch=training.steps_per_epoch,
        max_minutes=training.max_minutes,
        print_every=config.sampling.print_every,
        checkpoint_every_seconds=training.checkpoint_every_seconds,
        checkpoint_every_steps=training.checkpoint_every_steps,
    )


def _text(task: Task) -> dict[str, Any]:
    train, val, data = task.corpus.train, task.corpus.val, task.config.data
    return {
        "source": data.source,
        "paths": list(getattr(data, "paths", ())),
        "train_bytes": train.bytes,
        "val_bytes": val.bytes,
        "train_documents": train.documents,
        "val_documents": val.documents,
        "duplicates": task.corpus.duplicates,
        "split": task.split,
    }


def _tokens(task: Task) -> dict[str, Any]:
    train, val, tokenizer = task.corpus.train, task.corpus.val, task.corpus.tokenizer
    return {
        "train_tokens": train.tokens,
        "val_tokens": val.tokens,
        "kind": tokenizer.kind,
        "vocab_size": tokenizer.vocab_size,
        "bytes_per_token": round(train.bytes / train.tokens, 4),
    }


def _training(task: Task, steps: int) -> dict[str, Any]:
    training = task.config.training
    return {
        "epochs": training.epochs,
        "steps_per_epoch": training.steps_per_epoch,
        "batch_size": training.batch_size,
        "accumulate_steps": training.accumulate_steps,
        "sequence_length": task.sequence_length,
        "max_minutes": training.max_minutes,
        "steps": steps,
        "tokens": round(steps * _tokens_per_step(task)),
        "passes": round(steps * training.accumulate_steps / task.batches_in_pass, 3),
    }


def _tokens_per_step(task: Task) -> float:
    return task.tokens_per_batch * task.config.training.accumulate_steps


def _text_size(task: Task) -> TextSize:
    """Returns the size of the text as `corpus.fit` measures it; the characters are an estimate."""
    train, val, tokenizer = task.corpus.train, task.corpus.val, task.corpus.tokenizer
    size = train.bytes + val.bytes
    tokens = train.tokens + val.tokens
    characters = min(size, tokens) if tokenizer.kind == "character" else size
    return TextSize(size, characters, tokenizer.vocab_size, train.bytes / size)


def _mapped_bytes(task: Task, steps: int) -> int:
    """Returns the memory of the token ids, whose file is mapped, after so many updates."""
    batches = steps * task.config.training.accumulate_steps
    ids = task.corpus.train.ids
    return int(ids.nbytes * min(1.0, batches / task.batches_in_pass))
