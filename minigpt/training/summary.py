"""The summary before training: device, text, model, baselines, expected time."""

import math

import keras

from minigpt.models import GPT, EncoderDecoder
from minigpt.training.console import count, duration, rounded
from minigpt.training.expected_time import MAX_SPREAD, expected_seconds
from minigpt.training.fine_tuning import FineTuning
from minigpt.training.tasks.task import Task


def summary(
    task: Task, model: GPT | EncoderDecoder, device: str, fine_tuning: FineTuning | None
) -> str:
    """Returns the summary, one line per subject."""
    lines = summary_lines(task, model, device, fine_tuning)
    return "\n".join(f"{name:<12}{line}" for name, line in lines.items())


def summary_lines(
    task: Task, model: GPT | EncoderDecoder, device: str, fine_tuning: FineTuning | None
) -> dict[str, str]:
    """Returns the lines of the summary by subject."""
    lines = {"Device": device, **task.describe()}
    baselines = lines.pop("Baselines")
    parts = parameters_by_part(model)
    parameters = sum(parts.values())
    lines["Model"] = (
        f"{parameters:,} parameters ("
        + ", ".join(f"{part} {number:,}" for part, number in parts.items())
        + f"); {rounded(task.corpus.train.tokens / parameters)} tokens per parameter"
    )
    if fine_tuning:
        trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
        rank = task.config.training.lora_rank
        lines["Fine-tuning"] = (
            f"{fine_tuning.run.path}, {f'LoRA of rank {rank}' if rank else 'all weights'}: "
            f"{trained:,} of {model.count_params():,} parameters are trained"
        )
        if problems := fine_tuning.export_problems():
            lines["Export"] = f"--format huggingface will be refused: {'; '.join(problems)}"
    lines["Baselines"] = baselines
    lines["Training"] = _training(task, model)
    return lines


def parameters_by_part(model: GPT | EncoderDecoder) -> dict[str, int]:
    """Returns the numbers of weights: token table, position table, blocks, head."""

    def size(*layers: keras.layers.Layer | None) -> int:
        return sum(layer.count_params() for layer in layers if layer)

    tokens = size(model.embedding.token_embedding)
    blocks = (
        {
            "encoder": size(*model.encoder_blocks, model.encoder_norm),
            "decoder": size(*model.decoder_blocks, model.decoder_norm),
        }
        if isinstance(model, EncoderDecoder)
        else {"blocks": size(*model.blocks, model.final_norm)}
    )
    return {
        "token table": tokens,
        "positions": size(model.embedding) - tokens,
        **blocks,
        "head": size(model.head),
    }


def _training(task: Task, model: GPT | EncoderDecoder) -> str:
    training, length = task.config.training, task.sequence_length
    assert training.steps_per_epoch is not None  # Resolved.
    batches = training.epochs * training.steps_per_epoch * training.accumulate_steps
    seconds = expected_seconds(
        task.config,
        model.vocab_size,
        batches * task.tokens_per_batch,
        training.epochs * task.corpus.val.tokens,
    )
    accumulated = f" x {training.accumulate_steps}" if training.accumulate_steps > 1 else ""
    batch = f"{training.batch_size}{accumulated}" + (f" x {length} tokens" if length else " pairs")
    limit = f", at most {training.max_minutes:g} min" if training.max_minutes else ""
    return (
        f"{count(training.epochs, 'epoch')} of {count(training.steps_per_epoch, 'step')} of {batch}; "
        f"{expected(seconds)}{limit}"
    )


def expected(seconds: float | None) -> str:
    """Returns the text for an estimated time; None if measurements disagree."""
    if seconds is None:
        return (
            "no forecast of the time: measurements of this machine's speed differ by more than a factor "
            f"of {MAX_SPREAD:g}"
        )
    # The estimate does not contain the time for compiling, which is most of a short training.
    return "less than a minute" if seconds < 10 else f"about {duration(seconds)}"
