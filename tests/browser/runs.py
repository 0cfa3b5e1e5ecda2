"""Runs with random weights that look like finished ones, and their pages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import minigpt
from minigpt.config import config_record
from minigpt.runs.checkpoints import Best, ClockState, TrainingProgress, write_checkpoint
from minigpt.runs.layout import checkpoint_name, snapshot_name
from minigpt.runs.records import Facts, append_lines
from minigpt.runs.run import Run
from minigpt.targets.gguf.run_file import write_run_file
from tests.targets.gguf.models import Built

STEPS_PER_EPOCH = 20


def write_run(
    path: Path,
    built: Built,
    *,
    epochs: int = 2,
    kept_epochs: int = 0,
    sampling: dict[str, Any] | None = None,
    prompts: Sequence[str] = ("Ana sat",),
    text: str = " on the hill.",
    description: str = "tiny.txt, 90% for training",
) -> Run:
    """Writes a run whose best epoch is the last one.

    Args:
      path: a new directory.
      built: the model after the last epoch.
      epochs: the number of epochs.
      kept_epochs: the number of epochs whose weights the run keeps.
      sampling: settings of `[sampling]`.
      prompts: of the samples; of an encoder-decoder, sources.
      text: what every sample says.
      description: the recorded line about the text.
    """
    is_pairs = built.config.model.kind == "encoder_decoder"
    changed = {**({} if is_pairs else {"prompts": list(prompts)}), **(sampling or {})}
    settings = built.config.sampling.model_copy(update=changed)
    config = built.config.model_copy(update={"sampling": settings})
    facts = Facts(
        parameters=sum(weight.size for weight in built.weights),
        baselines={"uniform": 5.7, "unigram": 4.9},
        train_bytes=20_000,
        train_tokens=9_000,
        val_tokens=1_000,
        device="CPU",
        text=description,
    )
    run = Run.create(path, config, built.tokenizer, None, facts=facts)
    for epoch in range(1, epochs + 1):
        append_lines(run.metrics_file, [_metrics(epoch, is_pairs)])
        for prompt in prompts:
            names = {"source": prompt, "reference": text} if is_pairs else {"prompt": prompt}
            line = {"epoch": epoch, **names, "text": f"{text} {epoch}"}
            append_lines(run.samples_file, [line])
        if epoch <= kept_epochs:
            weights = weights_after(built, epoch, epochs)
            run.snapshots_folder.mkdir(exist_ok=True)
            file = run.snapshots_folder / snapshot_name(STEPS_PER_EPOCH * epoch)
            write_run_file(run, file, "int8", weights, _metrics(epoch, is_pairs))
    _write_checkpoint(run, built, epochs)
    return run


def weights_after(built: Built, epoch: int, epochs: int) -> list[np.ndarray]:
    """Returns the weights after an epoch: those of the last one are the model's."""
    draw = np.random.default_rng(epoch)
    away = 0.2 * (epochs - epoch)
    return [
        weight + away * draw.normal(0, 0.3, weight.shape).astype(weight.dtype)
        for weight in built.weights
    ]


def _metrics(epoch: int, is_pairs: bool) -> dict[str, Any]:
    loss = 5.0 / epoch
    return {
        "epoch": epoch,
        "step": STEPS_PER_EPOCH * epoch,
        "train_loss": loss + 0.1,
        "val_loss": loss,
        "val_perplexity": float(np.exp(loss)),
        "val_bits_per_byte": loss / 2,
        **({"val_bleu": 10.0 * epoch} if is_pairs else {}),
        "tokens_per_second": 1234.5,
        "seconds": 6.5 * epoch,
        "learning_rate": 1e-3,
    }


def _write_checkpoint(run: Run, built: Built, epoch: int) -> None:
    step = STEPS_PER_EPOCH * epoch
    name = checkpoint_name(step, epoch)
    progress = TrainingProgress(
        step=step,
        epoch=epoch,
        batch=0,
        clock=ClockState(batches=0, seconds=0.0, epoch_step=0, beside_a_step=0.0),
        given_plan=[],
        plan=[],
        best=Best(val_loss=5.0 / epoch, epoch=epoch, checkpoint=name),
        epochs_since_best=0,
        config=config_record(run.config),
    )
    arrays = {f"weights/{number:04}": weight for number, weight in enumerate(built.weights)}
    run.checkpoints_folder.mkdir(exist_ok=True)
    write_checkpoint(run.checkpoints_folder, name, arrays, progress)


def write_page(run: Run) -> Path:
    """Exports a run beside its directory. Returns the page's path."""
    page = run.path.with_name(f"{run.path.name[:20].strip('.<>')}.html")
    minigpt.export_run(run, "html", page, weights="float32")
    return page
