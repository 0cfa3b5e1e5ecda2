"""What is said once, before training, so that the numbers that follow mean something."""

import math

import keras

from minigpt.models import GPT, EncoderDecoder
from minigpt.training.console import duration
from minigpt.training.expected_time import expected_seconds
from minigpt.training.tasks.task import Task


def parameters_by_part(model: GPT | EncoderDecoder) -> dict[str, int]:
    """Numbers of weights: token table, position table, blocks, head."""

    def count(*layers: keras.layers.Layer | None) -> int:
        return sum(math.prod(v.shape) for layer in layers if layer for v in layer.weights)

    tokens = count(model.embedding.token_embedding)
    blocks = (
        {"encoder": count(*model.encoder_blocks), "decoder": count(*model.decoder_blocks)}
        if isinstance(model, EncoderDecoder)
        else {"blocks": count(*model.blocks, model.final_norm)}
    )
    return {
        "token table": tokens,
        "positions": count(model.embedding) - tokens,
        **blocks,
        "head": count(model.head),
    }


def describe(task: Task, model: GPT | EncoderDecoder, device: str) -> str:
    """Device, text, tokens, parameters, what guessing would score, and how long it will take."""
    training = task.config.training
    assert training.steps_per_epoch is not None  # Resolved.
    batches = training.epochs * training.steps_per_epoch * training.accumulate_steps
    seconds = expected_seconds(
        task.config,
        model.vocab_size,
        batches * task.tokens_per_batch,
        training.epochs * task.corpus.val.tokens,
    )
    parts = parameters_by_part(model)
    parameters = sum(parts.values())
    said = task.describe()
    to_beat = said.pop("To beat")
    accumulated = f" x {training.accumulate_steps}" if training.accumulate_steps > 1 else ""
    limit = f", at most {training.max_minutes:g} min" if training.max_minutes else ""
    lines = {
        "Device": device,
        **said,
        "Model": f"{parameters:,} parameters ("
        + ", ".join(f"{part} {number:,}" for part, number in parts.items())
        + f"); {task.corpus.train.tokens / parameters:.2g} tokens a parameter",
        "To beat": to_beat,
        "Training": f"{training.epochs} epochs of {training.steps_per_epoch:,} steps of "
        f"{training.batch_size}{accumulated} x {task.sequence}; "
        f"about {duration(seconds)}{limit}",
    }
    return "\n".join(f"{name:<12}{line}" for name, line in lines.items())
