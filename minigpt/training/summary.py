"""The summary before training: device, text, model, baselines, expected time."""

import math

import keras

from minigpt.inference.prompts import unknown_tokens_message
from minigpt.models import GPT, EncoderDecoder
from minigpt.training.console import count, duration
from minigpt.training.expected_time import expected_seconds
from minigpt.training.fine_tuning import FineTuning
from minigpt.training.tasks.language_modeling import TextFigures
from minigpt.training.tasks.task import Task
from minigpt.training.tasks.translation import PairFigures


def summary(
    task: Task, model: GPT | EncoderDecoder, device: str, fine_tuning: FineTuning | None
) -> str:
    """Returns the summary, one line per subject."""
    figures = task.describe()
    lines = {"Device": device}
    lines |= _pairs(figures) if isinstance(figures, PairFigures) else _text(figures)
    baselines = lines.pop("Baselines")
    parts = parameters_by_part(model)
    parameters = sum(parts.values())
    lines["Model"] = (
        f"{parameters:,} parameters ("
        + ", ".join(f"{part} {number:,}" for part, number in parts.items())
        + f"); {task.corpus.train.tokens / parameters:.2g} tokens per parameter"
    )
    if fine_tuning:
        trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
        total = sum(math.prod(weight.shape) for weight in model.weights)
        rank = task.config.training.lora_rank
        lines["Fine-tuning"] = (
            f"{fine_tuning.run.path}, {f'LoRA of rank {rank}' if rank else 'all weights'}: "
            f"{trained:,} of {total:,} parameters are trained"
        )
    lines["Baselines"] = baselines
    lines["Training"] = _training(task, model)
    return "\n".join(f"{name:<12}{line}" for name, line in lines.items())


def parameters_by_part(model: GPT | EncoderDecoder) -> dict[str, int]:
    """Returns the numbers of weights: token table, position table, blocks, head."""

    def size(*layers: keras.layers.Layer | None) -> int:
        return sum(math.prod(v.shape) for layer in layers if layer for v in layer.weights)

    tokens = size(model.embedding.token_embedding)
    blocks = (
        {"encoder": size(*model.encoder_blocks), "decoder": size(*model.decoder_blocks)}
        if isinstance(model, EncoderDecoder)
        else {"blocks": size(*model.blocks, model.final_norm)}
    )
    return {
        "token table": tokens,
        "positions": size(model.embedding) - tokens,
        **blocks,
        "head": size(model.head),
    }


def _text(figures: TextFigures) -> dict[str, str]:
    train, val, tokenizer = figures.train, figures.val, figures.tokenizer
    split = f"{count(train.documents, 'document')} for training, {val.documents:,} held out"
    if train.documents + val.documents <= 10:
        split = f"{train.bytes:,} bytes for training, {val.bytes:,} held out"
    unknown = train.unknown_tokens / train.tokens
    prompts = (
        unknown_tokens_message(repr(prompt), number)
        for prompt, number in figures.unknown_in_prompts.items()
    )
    baselines = (
        f"{name} {scores.loss:.3f}"
        + ("" if scores.bits_per_byte is None else f" ({scores.bits_per_byte:.3f} bits per byte)")
        for name, scores in (("uniform", figures.uniform), ("unigram", figures.unigram))
    )
    return {
        "Text": split,
        "Tokens": f"{train.tokens:,} and {val.tokens:,}; {tokenizer.kind} vocabulary of "
        f"{tokenizer.vocab_size:,}, {train.bytes / train.tokens:.2f} bytes per token"
        + (f"; {unknown:.2%} of them [UNK]" if unknown else ""),
        **({"Prompts": "; ".join(prompts)} if figures.unknown_in_prompts else {}),
        "Baselines": "validation loss, nats per token: " + ", ".join(baselines),
    }


def _pairs(figures: PairFigures) -> dict[str, str]:
    train, tokenizer, buckets = figures.train, figures.tokenizer, figures.buckets
    shapes = ", ".join(
        f"{bucket.shape.rows} x ({bucket.shape.source} + {bucket.shape.target})"
        for bucket in buckets.buckets
    )
    padding = 1 - buckets.tokens_in_pass / buckets.padded_tokens_in_pass
    left_out = [f"of the {part} pairs {line}" for part, line in figures.skipped.items()]
    return {
        "Text": f"{count(figures.train_pairs, 'pair')} for training, {figures.val_pairs:,} held out; no "
        "source sentence is in both parts",
        "Tokens": f"{train.tokens:,} and {figures.val.tokens:,}; {tokenizer.kind} vocabulary of "
        f"{tokenizer.vocab_size:,} for both languages, {train.bytes / train.tokens:.2f} bytes per token",
        "Batches": f"{buckets.batches_in_pass:,} per pass, of pairs x (source + target tokens): "
        f"{shapes}; {padding:.0%} padding",
        **({"Left out": "; ".join(left_out)} if left_out else {}),
        "Baselines": f"validation loss, nats per target token: uniform {figures.uniform:.3f}, unigram "
        f"{figures.unigram:.3f}",
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


def expected(seconds: float) -> str:
    """Returns the text for an estimated time."""
    # The estimate does not contain the time for compiling, which is most of a short training.
    return "less than a minute" if seconds < 10 else f"about {duration(seconds)}"
