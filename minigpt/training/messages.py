"""Messages at the end of training: results and suggested commands."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minigpt.config import Config
from minigpt.insight.reporter import Reporter
from minigpt.insight.verdict import Verdict, runnable
from minigpt.runs.checkpoints import checkpoint_paths
from minigpt.runs.run import Run
from minigpt.storage.files import is_newer
from minigpt.training.callbacks.checkpointing import MIN_INTERVAL
from minigpt.training.console import count, duration, rounded
from minigpt.training.failures import last_checkpoint
from minigpt.training.loop import TrainingLoop
from minigpt.training.resumed_training import settings_to_extend


def finished(loop: TrainingLoop, scores: dict[str, Any], seconds: float, command: str) -> str:
    """Returns the message at the end of training.

    Args:
      loop: the training loop.
      scores: see `Task.final_scores`.
      seconds: the time of this process, including preparation and export.
      command: how the user calls minigpt.
    """
    clock, path = loop.clock, loop.run.path
    times = f"trained for {duration(clock.seconds)}, {duration(seconds)} in all"
    if clock.seconds > clock.process_seconds + 1:
        times = f"trained for {duration(clock.seconds)}; {duration(seconds)} since it was resumed"
    lines = [_bleu(scores, loop.task.config)] if scores else []
    lines += [
        f"Done: {times}, including preparation and export. The best model is in {path}: "
        f"{_files(loop.run)}",
        _use(loop.task.config, path, command),
    ]
    return "\n".join(lines)


def doctor(reporter: Reporter, verdicts: Sequence[Verdict], command: str) -> list[str]:
    """Returns what the doctor found, one line per verdict, and what was not measured, in a line."""
    not_measured, path = reporter.not_measured, reporter.run.path
    lines = [
        f"Doctor: {verdict.title}. {verdict.evidence} {runnable(verdict.action, path, command)}"
        for verdict in verdicts
    ]
    if not lines:
        lines = ["Doctor: no problems found."]
    if not_measured:
        lines.append(
            f"Not measured, to save time: {', '.join(not_measured)}. To measure it: {command} doctor "
            f"{shlex.quote(str(path))}"
        )
    return lines


def interrupted(loop: TrainingLoop, command: str) -> str:
    """Returns the message after Ctrl-C."""
    clock, checkpoint = loop.clock, last_checkpoint(loop.run)
    saved = f"Saved a checkpoint in {checkpoint}." if checkpoint else "No checkpoint was saved yet."
    state = f"Interrupted at step {clock.step:,} of {clock.end:,}. {saved}"
    if loop.is_over:
        state = "Interrupted after training, before the export was complete."
    path = loop.run.path
    resume = f"Resume with: {command} train --resume {shlex.quote(str(path))}"
    return f"{state} {resume}\n{_use(loop.task.config, path, command)}"


def how_to_extend(loop: TrainingLoop, command: str) -> str:
    """Returns the message for a run whose training has already ended."""
    return (
        f"{loop.run.path} has ended at step {loop.clock.step:,}. Extend it with: "
        f"{_extending(loop, command)}"
    )


def _extending(loop: TrainingLoop, command: str) -> str:
    """Returns the command with which training that has ended goes on."""
    settings = settings_to_extend(
        loop.training,
        loop.checkpointing.epoch,
        loop.best.epochs_since,
        bool(loop.clock.limits.changes),
    )
    resume = f"{command} train --resume {shlex.quote(str(loop.run.path))}"
    return resume + "".join(f" --set {setting}" for setting in settings)


def why_it_ended(loop: TrainingLoop, command: str) -> list[str]:
    """Returns messages if training ended early or if saving took long."""
    training, clock, total = loop.training, loop.clock, loop.clock.limits.total_steps
    lines = []
    if clock.step < clock.end:
        patience = training.early_stopping_patience
        reason = "a callback stopped it"
        if patience and loop.best.is_out_of_patience:
            reason = (
                f"no better validation loss for training.early_stopping_patience = "
                f"{count(patience, 'epoch')}"
            )
        lines.append(f"Stopped at step {clock.step:,} of {clock.end:,}: {reason}.")
    elif clock.end < total:
        passes = clock.batches / loop.task.batches_in_pass
        reached = f"{count(clock.step, 'step')}, {rounded(passes)} passes over the text"
        if loop.best.best:
            reached += f", validation loss {loop.best.best.val_loss:.3f} nats per token"
        if training.max_minutes:
            limit = f"training.max_minutes = {training.max_minutes:g}"
            lines.append(
                f"Trained until the time limit, {limit}: {reached}. "
                f"To train further: {_extending(loop, command)}"
            )
        else:
            lines.append(f"Trained until the end that training.step_limits gives: {reached}.")
    saving = loop.checkpointing.seconds
    if training.checkpoint_every_steps and saving > clock.process_seconds / MIN_INTERVAL:
        lines.append(
            f"Saving took {saving:.1f} s of {clock.process_seconds:.1f} s: "
            f"training.checkpoint_every_steps = {training.checkpoint_every_steps} saves very often."
        )
    return lines


def _files(run: Run) -> str:
    """Returns the files of a finished run. Those that could not be written are missing, or old."""
    checkpoints = checkpoint_paths(run.checkpoints_folder)
    models = [
        (run.portable_file, "model.gguf to send to others"),
        (run.model_file, "model.keras for Keras"),
        (run.saved_model_folder / "saved_model.pb", "saved_model/ for TensorFlow"),
    ]
    written = ", ".join(name for file, name in models if is_newer(file, checkpoints))
    report = " The report is report.html." if run.report_file.is_file() else ""
    return f"{written}.{report}"


def _use(config: Config, path: Path, command: str) -> str:
    """Returns the command that uses the model."""
    if config.model.kind == "encoder_decoder":
        return f"Translate with: {command} translate {shlex.quote(str(path))}"
    prompt = next((p for p in config.sampling.prompts if p), "")
    option = f" --prompt {shlex.quote(prompt)}" if prompt else ""
    return f"Sample from it with: {command} sample {shlex.quote(str(path))}{option}"


def _bleu(scores: dict[str, Any], config: Config) -> str:
    if scores["greedy_bleu"] is None:
        return "BLEU –: the tokenizer does not reproduce the held-out targets exactly"
    line = (
        f"BLEU of the best model on {count(scores['pairs'], 'held-out pair')}: "
        f"{scores['greedy_bleu']:.1f} greedy"
    )
    if "beam_bleu" in scores:
        sampling = config.sampling
        line += (
            f", {scores['beam_bleu']:.1f} with {sampling.beams} beams and length penalty "
            f"{sampling.length_penalty:g}"
        )
    return line
