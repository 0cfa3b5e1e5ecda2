"""Run directories without a model: the records from which a report is made."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.config import dump_config, load_config
from minigpt.runs.checkpoints import (
    Best,
    ClockState,
    TrainingProgress,
    best_state,
    write_checkpoint,
)
from minigpt.runs.layout import checkpoint_name
from minigpt.runs.run import Run

STEPS_PER_EPOCH = 20
CERTIFICATE = {
    "certificate": 1,
    "format": "gguf",
    "weights": "int8",
    "problems": [],
    "text": "held-out text of the run",
    "logits": {"tokens": 2000, "largest_difference": 0.1234, "largest_of_source": 9.5},
    "bits_per_byte": {"source": 1.23456, "export": 1.23512, "relative_difference": 4.5e-4},
    "greedy": {"prompts": 50, "same_texts": 41, "second_largest_gap": 0.02},
    "tokenizer": {"lines": 2000, "same": 2000},
    "tokens_per_second": 1716.2,
    "bytes": 2_940_000,
    "sha256": {"stories.gguf": "0" * 64},
    "checkpoint": None,
    "date": "2026-11-23T09:00:00+00:00",
    "machine": "x86_64, 2 cores",
}
SMALL = {"max_len": 32, "embed_dim": 16, "num_heads": 2, "num_layers": 1}
BYTES_PER_TOKEN = 2.5
VERDICT = {
    "id": "too_short",
    "evidence": "The loss fell by 4% in the last quarter.",
    "action": "Train for twice as long.",
}
FACTS = {
    "parameters": 12_345,
    "baselines": {"uniform": 5.7, "unigram": 4.9},
    "train_bytes": 20_000,
    "train_tokens": 9_000,
    "val_tokens": 1_000,
    "device": "CPU, 2 cores",
    "text": "tiny.txt, 90% for training",
}


def loss_after(epoch: float) -> float:
    return 1.5 + 3.5 / (1 + epoch)


def write_records(
    path: Path,
    *,
    epochs: int = 4,
    pairs: bool = False,
    prompts: Sequence[str] = ("Ana sat", ""),
    text: str = " on the hill, and the sun was low.",
    settings: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] = FACTS,
    analysis: Mapping[str, Any] | None = None,
    steps: bool = True,
    seconds_per_epoch: float = 4.0,
) -> Run:
    """Writes a run directory.

    Args:
      path: a new directory.
      epochs: the number of epochs.
      pairs: whether it is an encoder-decoder.
      prompts: of the samples; of pairs, the sources.
      text: what every sample begins with.
      settings: sections of the configuration.
      facts: the content of facts.json.
      analysis: keys of analysis.json that differ from `analysis_of`; None for a run without the file.
      steps: whether there is a steps.jsonl.
      seconds_per_epoch: the duration of an epoch.
    """
    path.mkdir(parents=True)
    model = {**SMALL, **({"kind": "encoder_decoder"} if pairs else {})}
    data = {"source": "pairs", "paths": ["/home/somebody/pairs.tsv"]}
    sections = {"model": model, **({"data": data} if pairs else {}), **(settings or {})}
    (path / "config.toml").write_text(dump_config(load_config(sections)), encoding="utf-8")
    (path / "facts.json").write_text(json.dumps(facts))
    numbers = range(1, epochs + 1)
    write_lines(path / "metrics.jsonl", [metrics_of(e, pairs, seconds_per_epoch) for e in numbers])
    names = [{"source": p, "reference": text} if pairs else {"prompt": p} for p in prompts]
    samples = [
        {"epoch": epoch, **name, "text": f"{text} Epoch {epoch}."}
        for epoch in numbers
        for name in names
    ]
    write_lines(path / "samples.jsonl", samples)
    if steps:
        write_lines(path / "steps.jsonl", steps_of(epochs, seconds_per_epoch))
    if analysis is not None:
        content = {**analysis_of(epochs), **analysis}
        (path / "analysis.json").write_text(json.dumps(content))
    return Run(path)


def started_from_a_base(run: Run, loss: float = 4.0) -> Run:
    """Makes a run one that began from a base, whose validation loss is given."""
    run.replace_config(run.config.with_training(init_from="bases/english"))
    lines = run.metrics_file.read_text()
    first = json.loads(lines.splitlines()[0])
    factor = first["val_bits_per_byte"] / first["val_loss"]
    scores = {"val_loss": loss, "val_bits_per_byte": factor * loss, "seconds": 1.0}
    unknown = dict.fromkeys(("train_loss", "tokens_per_second", "learning_rate"))
    line = {**first, **unknown, **scores, "epoch": 0, "step": 0}
    run.metrics_file.write_text(json.dumps(line) + "\n" + lines)
    return run


def write_lines(file: Path, records: Sequence[Mapping[str, Any]]) -> None:
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def metrics_of(epoch: int, pairs: bool, seconds_per_epoch: float) -> dict[str, Any]:
    loss = loss_after(epoch)
    return {
        "epoch": epoch,
        "step": STEPS_PER_EPOCH * epoch,
        "train_loss": loss + 0.1,
        "val_loss": loss,
        "val_perplexity": math.exp(loss),
        "val_bits_per_byte": loss / math.log(2) / BYTES_PER_TOKEN,
        **({"val_bleu": 10.0 + epoch} if pairs else {}),
        "tokens_per_second": 1234.5,
        "seconds": seconds_per_epoch * epoch,
        "learning_rate": 1e-3 / epoch,
    }


def steps_of(epochs: int, seconds_per_epoch: float, lines_per_epoch: int = 4) -> list[dict]:
    """Returns lines whose losses fall by 0.001 with every step; the mean is that of the epoch so far."""
    lines = []
    for epoch in range(1, epochs + 1):
        for part in range(1, lines_per_epoch + 1):
            batches = STEPS_PER_EPOCH * part // lines_per_epoch
            step = STEPS_PER_EPOCH * (epoch - 1) + batches
            losses = [5 - 0.001 * (step - batches + 1 + at) for at in range(batches)]
            lines.append(
                {
                    "epoch": epoch,
                    "step": step,
                    "batches": batches,
                    "mean_loss": sum(losses) / batches,
                    "seconds": seconds_per_epoch * step / STEPS_PER_EPOCH,
                    "tokens_per_second": 1200.0 + step,
                    "learning_rate": 1e-3 / epoch,
                    "memory_bytes": 800_000_000 + step,
                }
            )
    return lines


def memorization_of(epoch: int, text: str = "Zoë saw the old fox run home.") -> dict[str, Any]:
    return {
        "state": "best",
        "epoch": epoch,
        "step": STEPS_PER_EPOCH * epoch,
        "tokens": 12_800,
        "words": 8_000,
        "share": 0.031,
        "held_out_share": 0.0021,
        "samples": [{"prompt": "Once", "text": text, "copied": [[8, 19]]}],
    }


def write_certificate(run: Run, name: str = "stories.gguf", **changes: Any) -> None:
    """Writes a certificate into a run directory; `changes` are keys that differ."""
    run.certificates_folder.mkdir(exist_ok=True)
    content = {**CERTIFICATE, "name": name, **changes}
    file = run.certificates_folder / f"{len(list(run.certificates_folder.iterdir()))}.json"
    file.write_text(json.dumps(content))


def write_state(run: Run, step: int, epoch: int) -> dict[str, str]:
    """Writes a checkpoint whose weights are the best ones so far, and returns what identifies it."""
    name = checkpoint_name(step, epoch)
    progress = TrainingProgress(
        step=step,
        epoch=epoch,
        batch=0,
        clock=ClockState(batches=0, seconds=0.0, epoch_step=0, beside_a_step=0.0),
        given_plan=[],
        plan=[],
        best=Best(val_loss=1.0, epoch=epoch, checkpoint=name),
        epochs_since_best=0,
        config={},
    )
    run.checkpoints_folder.mkdir(exist_ok=True)
    write_checkpoint(run.checkpoints_folder, name, {"weights/0": np.full([1], step)}, progress)
    state = best_state(run.checkpoints_folder)
    assert state
    return state


def analysis_of(epochs: int) -> dict[str, Any]:
    """Returns an analysis.json in which everything was measured."""
    words = [" The", " fox", " sat", "\n", " on", " a", " zax"]
    passage = {"loss": 2.1, "tokens": [[word, 0.6 * at] for at, word in enumerate(words)]}
    return {
        "state": "finished",
        "written": 1_700_000_000.0,
        "version": "0.2.0",
        "tokens_per_step": 512,
        "planned_steps": STEPS_PER_EPOCH * epochs,
        "resumed_at": [],
        "baselines": {
            "uniform": 5.7,
            "unigram": 4.9,
            "bigram": 3.9,
            "ngram": 3.5,
            "ngram_bits_per_byte": 1.9,
            "byte_ngram_bits_per_byte": 2.2,
            "ppmd_bits_per_byte": 2.19,
        },
        "bytes_per_token": BYTES_PER_TOKEN,
        "positions": [
            {"from": 0, "to": 4, "tokens": 100, "loss": 4.1},
            {"from": 4, "to": 32, "tokens": 900, "loss": 3.1},
        ],
        "frequencies": [
            {"from": 0, "to": 1, "tokens": 5, "loss": 8.1},
            {"from": 1, "to": None, "tokens": 995, "loss": 3.1},
        ],
        "passages": {"hardest": [passage], "easiest": [passage]},
        "memorization": {"best": memorization_of(epochs), "last": memorization_of(epochs)},
        "text": [{"kind": "duplicates", "evidence": "12% of the lines are duplicates"}],
        "verdicts": [VERDICT],
    }
