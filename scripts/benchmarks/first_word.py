"""Measures the time from the start of a command to the first text that it adds to a prompt."""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measuring import Context, Outcome
from benchmarks.sizes import Sizes

PROMPT = "Once upon a time"
# Enough for words in place of arbitrary tokens.
STEPS = 50


def prepare(context: Context) -> Outcome:
    """Trains the default configuration briefly, and writes the same model for transformers."""
    import minigpt

    folder = run_folder(context)
    if not _portable_file(context).exists():
        for unfinished in (folder, _huggingface(context)):
            shutil.rmtree(unfinished, ignore_errors=True)
        # transformers and llama.cpp have no other parts.
        settings = ["model.standard_parts=true", f"training.steps_per_epoch={STEPS}"]
        settings += ["training.epochs=1", "training.max_minutes=20"]
        minigpt.train(minigpt.load_config("default", settings), folder)
    if not _huggingface(context).exists():
        minigpt.export_run(folder, "huggingface", _huggingface(context))
    return {"value": _portable_file(context).stat().st_size}


def prepare_nanogpt(context: Context) -> Outcome:
    """Writes a checkpoint of a nanoGPT with the sizes of the default configuration."""
    import torch

    import minigpt
    from benchmarks.nanogpt_model import Model

    run = minigpt.Run(run_folder(context))
    tokenizer, model = run.load_tokenizer(), run.config.model.resolved()
    pieces = [piece.decode(errors="replace") for piece in tokenizer.pieces]
    sizes = Sizes(
        tokenizer.vocab_size,
        model.max_len,
        model.max_len,
        model.embed_dim,
        model.num_heads,
        model.embed_dim // model.num_heads,
        4 * model.embed_dim,
        model.num_layers,
        1,
    )
    torch.manual_seed(0)
    weights = Model(sizes, len(pieces)).state_dict()
    torch.save({"model": weights, "sizes": asdict(sizes), "pieces": pieces}, _checkpoint(context))
    return {"value": sum(weight.numel() for weight in weights.values())}


def run_folder(context: Context) -> Path:
    return context.work / "run-first-word"


def _portable_file(context: Context) -> Path:
    """Returns the file that `minigpt sample` reads."""
    return run_folder(context) / "model.gguf"


def _huggingface(context: Context) -> Path:
    return context.work / "first-word-huggingface"


def _checkpoint(context: Context) -> Path:
    return context.work / "first-word-nanogpt.pt"


def ours(context: Context) -> Outcome:
    """Measures `minigpt sample --stream`."""
    run = str(run_folder(context))
    command = ["-m", "minigpt", "sample", run, "--prompt", PROMPT, "--seed", "1", "--stream"]
    return seconds_to_word([sys.executable, *command])


def peer(context: Context, program: str) -> Outcome:
    """Measures one of the scripts `*_sample`."""
    files = {
        "nanogpt": _checkpoint(context),
        "transformers": _huggingface(context),
        "llama": _portable_file(context),
    }
    module = f"benchmarks.{program}_sample"
    return seconds_to_word([sys.executable, "-m", module, str(files[program]), PROMPT])


def executable(context: Context) -> Outcome:
    """Measures llama.cpp's own program, if it is there."""
    # Newer versions of llama-cli only chat; the first one continues prompts.
    found = next(filter(None, map(shutil.which, ("llama-completion", "llama-cli"))), None)
    if found is None:
        return {"skipped": "neither llama-completion nor llama-cli is on PATH"}
    options = ["-p", PROMPT, "-n", "40", "--seed", "1", "-no-cnv", "--no-warmup"]
    return seconds_to_word([found, "-m", str(_portable_file(context)), *options])


def seconds_to_word(command: list[str], prompt: str = PROMPT) -> Outcome:
    """Returns the seconds from the start of a command to its first text after the prompt.

    Args:
      command: prints the prompt, then its continuation, as soon as there is some. It is then killed.
      prompt: the prompt.
    Raises:
      ValueError: the command prints something else, or nothing.
    """
    began, printed = time.perf_counter(), b""
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        try:
            while new := os.read(process.stdout.fileno(), 1 << 16):
                seconds = time.perf_counter() - began
                printed += new
                text = printed.decode(errors="replace").lstrip()
                if not text.startswith(prompt[: len(text)]):
                    break
                if word := text[len(prompt) :].strip():
                    return {"value": seconds, "text": word}
        finally:
            process.kill()
    raise ValueError(f"{command}: printed {printed[:200]!r}; should be the prompt and a text")
