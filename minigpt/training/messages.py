"""The messages of training: the summary before it, and the results and suggested commands after it."""

import math
import shlex
from collections.abc import Mapping
from typing import Any

import keras

from minigpt.models import GPT, EncoderDecoder
from minigpt.runs.layout import checkpoint_paths, is_newer
from minigpt.runs.records import number, read_lines
from minigpt.runs.run import Run
from minigpt.training.console import counted, duration, rounded
from minigpt.training.loop import TrainingLoop
from minigpt.training.start import settings_to_extend
from minigpt.training.stopping import last_checkpoint
from minigpt.training.strategy import unused_gpu
from minigpt.training.tasks.task import Task

# What the figures mean; docs/words.md has the same words, and more.
WORDS = """\
The words in these lines (more of them: docs/words.md):
  token            a piece of text; the model predicts one after the other
  parameters       the numbers that training adjusts
  step (update)    one adjustment of all parameters, from one batch of tokens
  epoch            some steps, then a validation and samples
  loss             how unexpected the next token was, in nats (1.44 bits); lower is better
  validation loss  the loss on held-out text, which is not trained on
  held out         kept from training, to measure the model on text that is new to it
  tokenizer        the rule that divides text into tokens, such as byte_pair or character
  pass             reading the whole training text once
  uniform          baseline: the loss if all tokens were equally probable
  unigram          baseline: the loss if each token had its frequency in the training text
  perplexity       e to the power of the loss: 20 is like a choice among 20 equal tokens
  bits per byte    the loss per byte of text, to compare models with different tokens
  [text]           in a sample: the prompt; the model writes what follows"""
# Parameters of a model whose page has more than 25 MB in float32.
_LARGE_PAGE = 4_000_000


def in_lines(summary: Mapping[str, str]) -> str:
    """Returns a summary, one line per subject."""
    return "\n".join(f"{name:<12}{line}" for name, line in summary.items())


def summary(task: Task, model: GPT | EncoderDecoder, device: str, seconds: float) -> dict[str, str]:
    """Returns what is trained, a line by subject; `seconds` are those of `training_seconds`."""
    lines = {"Device": device}
    if why := unused_gpu(task.config.training.device):
        lines["GPU"] = f"not used: {why}"
    lines |= task.describe()
    baselines = lines.pop("Baselines")
    parts = parameters_by_part(model)
    parameters = sum(parts.values())
    sizes = ", ".join(f"{part} {number:,}" for part, number in parts.items() if number)
    per_parameter = rounded(task.corpus.train.tokens / parameters)
    lines["Model"] = f"{parameters:,} parameters ({sizes}); {per_parameter} tokens per parameter"
    if source := task.config.training.init_from:
        trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
        rank = task.config.training.lora_rank
        lines["Fine-tuning"] = (
            f"{source}, {f'LoRA of rank {rank}' if rank else 'all parameters'}: "
            f"{trained:,} of {model.count_params():,} parameters are trained"
        )
    lines["Baselines"] = baselines
    lines["Training"] = _training(task, seconds)
    return lines


def parameters_by_part(model: GPT | EncoderDecoder) -> dict[str, int]:
    """Returns the numbers of parameters: token table, position table, n-grams, blocks, head."""

    def size(*layers: keras.layers.Layer | None) -> int:
        return sum(layer.count_params() for layer in layers if layer)

    tokens = size(model.embedding.token_embedding)
    parts = {"token table": tokens, "positions": size(model.embedding) - tokens}
    if ngrams := size(getattr(model, "ngram_embedding", None)):
        parts["n-grams"] = ngrams
    if isinstance(model, EncoderDecoder):
        parts["encoder"] = size(*model.encoder_blocks, model.encoder_norm)
        parts["decoder"] = size(*model.decoder_blocks, model.decoder_norm)
    else:
        parts["blocks"] = size(*model.blocks, model.final_norm)
    return parts | {"head": size(model.head)}


def in_a_sentence(task: Task, model: GPT | EncoderDecoder, seconds: float) -> str:
    """Returns what is trained, for a person; `seconds` are those of `training_seconds`."""
    training, tokenizer = task.config.training, task.corpus.tokenizer
    unit = {"character": "characters", "word": "words"}.get(tokenizer.kind, "parts of words")
    size = model.count_params()
    parameters = f"{rounded(size / 1e6)} million" if size >= 995_000 else rounded(size)
    updates = training.epochs * training.updates_per_epoch * training.accumulate_steps
    passes, time = updates / task.batches_in_pass, f"about {duration(seconds)}"
    if limit := training.max_minutes:
        passes *= min(1.0, 60 * limit / seconds)
        time = f"at most {limit:g} minute{'s' * (limit != 1)}"
    return (
        f"About {parameters} parameters, a vocabulary of {tokenizer.vocab_size:,} {unit}, "
        f"about {rounded(passes)} pass{'es' * (passes != 1)}, {time}."
    )


def _training(task: Task, seconds: float) -> str:
    training, length = task.config.training, task.sequence_length
    accumulated = f" x {training.accumulate_steps}" if training.accumulate_steps > 1 else ""
    batch = f"{training.batch_size}{accumulated}" + (f" x {length} tokens" if length else " pairs")
    # The estimate leaves out the time for compiling, which is most of a short run, and is often too low.
    expected = f"{duration(seconds)} to {duration(3 * seconds)}"
    expected = "less than a minute" if seconds < 15 else expected
    if limit := training.max_minutes:
        expected = f"{expected}, " * (max(60, 3 * seconds) < 60 * limit) + f"at most {limit:g} min"
    return (
        f"{'up to ' * bool(limit)}{counted(training.epochs, 'epoch')} of "
        f"{counted(training.updates_per_epoch, 'step')} of {batch}; {expected}"
    )


def finished(loop: TrainingLoop, scores: dict[str, Any], seconds: float) -> str:
    """Returns the message at the end of training.

    Args:
      scores: see `Task.final_scores`.
      seconds: the time of this process, including preparation and export.
    """
    clock, run = loop.clock, loop.run
    times = f"trained for {duration(clock.seconds)}, {duration(seconds)} in all"
    if clock.seconds > clock.process_seconds + 1:
        times = f"trained for {duration(clock.seconds)}; {duration(seconds)} since it was resumed"
    before = _learned(run) + (f"{_bleu(loop, scores)}\n" if scores else "")
    # The graphs of these tokenizers have no operations of tensorflow_text.
    is_plain = loop.task.corpus.tokenizer.kind in ("character", "word", "listed")
    needs = "" if is_plain else " (after import tensorflow_text)"
    checkpoints = checkpoint_paths(run.checkpoints_folder)
    models = [
        (run.portable_file, "model.gguf to send to others"),
        (run.model_file, "model.keras for Keras (after import minigpt)"),
        (run.saved_model_folder / "saved_model.pb", f"saved_model/ for TensorFlow{needs}"),
    ]
    # Those that could not be written are missing, or old.
    files = ", ".join(name for file, name in models if is_newer(file, checkpoints))
    report = f" The report is {run.report_file}." if run.report_file.is_file() else ""
    return (
        f"{before}Done: {times}, including preparation and export. The best model is in {run.path}: "
        f"{files}.{report}"
    )


def _learned(run: Run) -> str:
    """Returns a line with the scores before training and of the best state; "" if it began from nothing."""
    lines = read_lines(run.metrics_file)
    for name, unit in ("val_bits_per_byte", "bits per byte"), ("val_loss", "nats per token"):
        scores = [score for line in lines if (score := number(line.get(name))) is not None]
        if scores and lines[0].get("epoch") == 0:
            line = f"before training {scores[0]:.3f} {unit}, now {min(scores):.3f}"
            is_worse = min(scores) == scores[0]
            return f"Held-out text: {line}{'; no later state is better' * is_worse}.\n"
    return ""


def next_commands(loop: TrainingLoop, command: str) -> str:
    """Returns commands for a finished run, each on a line of its own, to be copied, and what to do next."""
    path = shlex.quote(str(loop.run.path))
    lines = [_use(loop, command)]
    if loop.run.portable_file.is_file():
        page = shlex.quote(f"{loop.run.path.name}.html")
        export = f"{command} export {path} --format html --output {page}"
        if loop.model.count_params() > _LARGE_PAGE:
            export += " --weights int8"
        lines.append(f"Make a web page that contains it: {export}")
    advice, is_best = loop.hooks.advice, not loop.checkpointing.epochs_since_best
    if is_bundled := loop.task.config.data.source == "stories":
        lines.append(f"Train a model of your own text: {command} train --text book.txt")
    if advice:
        lines.append(advice)
    elif advice is None and not is_bundled and is_best:
        lines.append(f"Train it for longer: {_extending(loop, command)}")
    return "\n".join(lines)


def interrupted(loop: TrainingLoop, command: str) -> str:
    """Returns the message after Ctrl-C."""
    clock, checkpoint = loop.clock, last_checkpoint(loop.run)
    saved = f"Saved a checkpoint in {checkpoint}." if checkpoint else "No checkpoint was saved yet."
    state = f"Interrupted at step {clock.step:,} of {clock.end:,}. {saved}"
    if loop.is_over:
        state = "Interrupted after training, before the export was complete."
    resume = f"Resume with: {command} train --resume {shlex.quote(str(loop.run.path))}"
    return f"{state} {resume}\n{_use(loop, command)}"


def how_to_extend(loop: TrainingLoop, command: str) -> str:
    """Returns the message for a run whose training has already ended."""
    return (
        f"{loop.run.path} has ended at step {loop.clock.step:,}. Extend it with: "
        f"{_extending(loop, command)}"
    )


def _extending(loop: TrainingLoop, command: str) -> str:
    """Returns the command with which training that has ended goes on."""
    epoch, since_best = loop.checkpointing.epoch, loop.checkpointing.epochs_since_best
    seconds = loop.clock.seconds * (1 + 1 / max(1, epoch))
    exceeds = seconds > 60 * (loop.training.max_minutes or math.inf)
    needs_time = exceeds or bool(loop.clock.limits.changes)
    settings = settings_to_extend(loop.training, epoch, since_best, needs_time)
    resume = f"{command} train --resume {shlex.quote(str(loop.run.path))}"
    return resume + "".join(f" --set {setting}" for setting in settings)


def why_it_ended(loop: TrainingLoop) -> str | None:
    """Returns the message if training ended early; None if it did not."""
    training, clock, total = loop.training, loop.clock, loop.clock.limits.total_steps
    if clock.step < clock.end:
        reason = "a callback stopped it"
        if loop.checkpointing.is_out_of_patience:
            noun = "validation" if training.eval_every_steps else "epoch"
            patience = counted(training.early_stopping_patience or 0, noun)
            reason = f"no better validation loss for training.early_stopping_patience = {patience}"
        return f"Stopped at step {clock.step:,} of {clock.end:,}: {reason}."
    if clock.end < total:
        passes = clock.batches / loop.task.batches_in_pass
        reached = f"{counted(clock.step, 'step')}, {rounded(passes)} passes over the text"
        if loop.checkpointing.best:
            reached += f", validation loss {loop.checkpointing.best.val_loss:.3f} nats per token"
        end = "end that training.step_limits gives"
        if training.max_minutes:
            end = f"time limit, training.max_minutes = {training.max_minutes:g}"
        return f"Trained until the {end}: {reached}."
    return None


def _use(loop: TrainingLoop, command: str) -> str:
    """Returns the command that uses the model."""
    config, path = loop.task.config, shlex.quote(str(loop.run.path))
    if config.model.kind == "encoder_decoder":
        return f"Translate with: {command} translate {path}"
    if config.data.source == "dialogues":
        return f"Ask it with: {command} chat {path}"
    prompt = next((p for p in config.sampling.prompts if p), "")
    option = f" --prompt {shlex.quote(prompt)}" if prompt else ""
    return f"Sample from it with: {command} sample {path}{option}"


def _bleu(loop: TrainingLoop, scores: dict[str, Any]) -> str:
    if scores["greedy_bleu"] is None:
        return "BLEU –: the tokenizer does not reproduce the held-out targets exactly"
    pairs, sampling = counted(scores["pairs"], "held-out pair"), loop.task.config.sampling
    line = f"BLEU of the best model on {pairs}: {scores['greedy_bleu']:.1f} greedy"
    if "beam_bleu" in scores:
        beams = f"{sampling.beams} beams and length penalty {sampling.length_penalty:g}"
        line += f", {scores['beam_bleu']:.1f} with {beams}"
    return line
