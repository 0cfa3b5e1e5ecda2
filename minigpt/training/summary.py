"""What is said once, before training, so that the numbers that follow mean something."""

import math
import time

import keras

from minigpt.config import Config
from minigpt.corpus.token_store import Corpus
from minigpt.evaluation import Evaluator, baselines, score
from minigpt.models import GPT
from minigpt.training.display import duration


def parameters_by_part(model: GPT) -> dict[str, int]:
    """Numbers of weights: token table, position table, blocks, head."""

    def count(layer: keras.layers.Layer | None) -> int:
        return sum(math.prod(v.shape) for v in layer.weights) if layer else 0

    tokens = count(model.embedding.token_embedding)
    return {
        "token table": tokens,
        "positions": count(model.embedding) - tokens,
        "blocks": sum(count(block) for block in model.blocks) + count(model.final_norm),
        "head": count(model.head),
    }


def describe(
    config: Config, corpus: Corpus, model: GPT, evaluator: Evaluator, device: str, total_steps: int
) -> str:
    """Device, text, tokens, parameters, what guessing would score, and how long it will take."""
    training, tokenizer = config.training, corpus.tokenizer
    train, val = corpus.train, corpus.val
    parts = parameters_by_part(model)
    parameters = sum(parts.values())
    split = f"{train.documents:,} documents to learn from, {val.documents:,} held out"
    if train.documents + val.documents <= 10:
        split = f"{train.bytes:,} bytes to learn from, the last {val.bytes:,} held out"
    guesses = []
    for what, loss in zip(
        ("uniform guessing", "plain token frequencies"),
        baselines(val, corpus.token_counts),
        strict=True,
    ):
        bits = score(loss, val, tokenizer.lossless).bits_per_byte
        guesses.append(
            f"{what} {loss:.3f}" + ("" if bits is None else f" ({bits:.3f} bits per byte)")
        )
    accumulated = f" x {training.accumulate_steps}" if training.accumulate_steps > 1 else ""
    limit = f", at most {training.max_minutes:g} min" if training.max_minutes else ""
    expected = expected_seconds(config, corpus, evaluator, total_steps)
    lines = {
        "Device": device,
        "Text": split,
        "Tokens": f"{train.tokens:,} and {val.tokens:,}; {tokenizer.kind} vocabulary of "
        f"{tokenizer.vocab_size:,}, {train.bytes / train.tokens:.2f} bytes a token",
        "Model": f"{parameters:,} parameters ("
        + ", ".join(f"{part} {number:,}" for part, number in parts.items())
        + f"); {train.tokens / parameters:.2g} tokens a parameter",
        "To beat": "a validation loss, in nats per token, of " + " and ".join(guesses),
        "Training": f"{training.epochs} epochs of {training.steps_per_epoch:,} steps of "
        f"{training.batch_size}{accumulated} x {config.sequence_length} tokens; "
        f"about {duration(expected)}{limit}",
    }
    return "\n".join(f"{name:<12}{line}" for name, line in lines.items())


def expected_seconds(
    config: Config, corpus: Corpus, evaluator: Evaluator, total_steps: int
) -> float:
    """A guess from the speed of the forward pass on this machine, measured on held-out text.

    A training step is taken for three forward passes: one forward, two for the gradients.
    """
    training = config.training
    evaluator.loss(corpus.val.ids, most_batches=1)  # Compiles.
    began = time.perf_counter()
    evaluator.loss(corpus.val.ids, most_batches=2)
    windows = math.ceil(corpus.val.tokens / config.model.max_len)
    batches = min(2, math.ceil(windows / evaluator.batch_size))
    per_sequence = (time.perf_counter() - began) / (batches * evaluator.batch_size)
    trained = total_steps * training.batch_size * training.accumulate_steps
    share = config.sequence_length / config.model.max_len
    return per_sequence * (3 * trained * share + training.epochs * windows)
