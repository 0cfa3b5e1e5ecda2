"""Measures `minigpt.train`, up to the step at which the measurement is complete."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measuring import Context, Outcome, SteadySpeed, resident
from benchmarks.sizes import CHARACTERS, DEFAULT, GPT2_124M, MODERN, WORDS, Sizes
from benchmarks.watching import Finished, watch

SIZES = {
    "words": WORDS,
    "characters": CHARACTERS,
    "default": DEFAULT,
    "modern": MODERN,
    "124m": GPT2_124M,
}
# The blocks of the peers. The default configuration may have another one.
BLOCKS = {
    "words": {"block": "post_norm", "position": "learned", "activation": "relu"},
    "characters": {"block": "pre_norm", "position": "learned", "activation": "gelu_tanh"},
    "default": {"block": "pre_norm", "position": "learned", "activation": "gelu_tanh"},
    "modern": {"block": "modern", "position": "rotary", "activation": "silu"},
    "124m": {"block": "pre_norm", "position": "learned", "activation": "gelu_tanh"},
}
# The first two updates, which compile and allocate, are not counted. The same holds for the peers.
FIRST = 2
# Checkpoints take at most 2% of the training time, but within a few steps they would take all or none of
# it. A time limit must not end the training on a slow machine before its speed is known.
UNDISTURBED = {"training.checkpoint_every_seconds": 1e6, "training.max_minutes": 1000}


def prepare(context: Context, system: str, **changes: Any) -> Outcome:
    """Creates the text and the token store before the measurements."""
    config = settings(context, system, **changes)
    from minigpt.corpus.token_store import open_corpus

    corpus = open_corpus(config.data, config.tokenizer)
    if corpus.tokenizer.vocab_size != SIZES[system].vocab_size:
        raise ValueError(f"{system}: a vocabulary of {corpus.tokenizer.vocab_size}")
    return {"value": corpus.train.tokens}


def settings(context: Context, system: str, **changes: Any) -> Any:
    """Returns the configuration of a system, with a text that exists on every machine."""
    import minigpt

    sizes = SIZES[system]
    settings = {**_pinned(system), **changes}
    overrides = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    if system in ("default", "modern"):
        overrides += ["tokenizer.kind=byte_pair", f"tokenizer.vocab_size={sizes.vocab_size}"]
        return minigpt.load_config("default", overrides)
    if system == "characters":
        return minigpt.load_config(_characters(context.work, sizes), overrides)
    # The text has more words than the vocabulary; the rarest are [UNK], as in any text.
    path = _text(context.work / f"words-{sizes.vocab_size}.txt", sizes)
    name = "imdb_keras_example"
    if system == "124m":
        # Its own vocabulary would be downloaded. Words do not change the model or the batches.
        name = "gpt2_124m_scratch"
        overrides += ["tokenizer.kind=word", f"tokenizer.vocab_size={sizes.vocab_size}"]
    return minigpt.load_config(name, overrides, [str(path)])


def _pinned(system: str) -> dict[str, Any]:
    """Returns the sizes and the block of a system: comparable, whatever its configuration becomes."""
    sizes = SIZES[system]
    model = {
        "max_len": sizes.context,
        "embed_dim": sizes.embed_dim,
        "num_heads": sizes.num_heads,
        "head_dim": sizes.head_dim,
        "ff_dim": sizes.ff_dim,
        "num_layers": sizes.num_layers,
        "qkv_bias": system != "modern",
        "tie_embeddings": system != "words",
        **BLOCKS[system],
    }
    training = {"batch_size": sizes.batch_size, "sequence_length": sizes.length}
    return {f"model.{key}": value for key, value in model.items()} | {
        f"training.{key}": value for key, value in training.items()
    }


def _text(path: Path, sizes: Sizes) -> Path:
    from benchmarks.texts import write_text

    return write_text(path, 200 * sizes.vocab_size, sizes.vocab_size + 1000)


def _characters(work: Path, sizes: Sizes) -> dict[str, Any]:
    from benchmarks.texts import write_characters

    # As words, because the character vocabulary has tokens for bytes, and the other systems have none. The
    # other entries are padding, [UNK] and the end token.
    letters = "".join(map(chr, range(ord("0"), ord("0") + sizes.vocab_size - 3)))
    path = work / "separate-characters.txt"
    if not path.exists():
        write_characters(path, 1_000_000, letters)
    return {
        "data": {"source": "files", "paths": [str(path)], "val_fraction": 0.1},
        "tokenizer": {"kind": "word", "vocab_size": sizes.vocab_size},
        "model": {"dropout_rate": 0.0},
        "training": {
            "epochs": 1,
            "steps_per_epoch": 2000,
            "learning_rate": 1e-3,
            "warmup_steps": 100,
            "optimizer": "adamw",
            "adam_beta_2": 0.99,
            "weight_decay": 0.1,
            "clip_norm": 1.0,
        },
        "sampling": {"max_new_tokens": 40},
    }


def speed(context: Context, system: str, steps: int, seconds: float) -> Outcome:
    """Measures tokens per second in steady steps, and peak memory above the imports."""
    config = settings(context, system, **UNDISTURBED)
    sizes = SIZES[system]
    if (config.training.batch_size, config.sequence_length) != (sizes.batch_size, sizes.length):
        raise ValueError(f"{system}: its batches differ from `sizes.py`")
    steady = SteadySpeed(sizes.tokens_per_step, FIRST, steps, seconds)

    def observe(model: Any, step: int, event: str) -> None:
        if event == "begin" and _sizes(model, sizes) != sizes:
            raise ValueError(f"{system}: {_sizes(model, sizes)} in place of {sizes}")
        if event == "step" and steady.seen(step):
            raise Finished

    imported = train(context, config, observe)
    return {
        "value": steady.tokens_per_second,
        "memory": resident("VmHWM") - imported,
        "steps": steady.counted,
    }


def _sizes(model: Any, sizes: Sizes) -> Sizes:
    """Returns `sizes` with those of a model."""
    config = model.config
    return replace(
        sizes,
        vocab_size=model.vocab_size,
        context=config.max_len,
        embed_dim=config.embed_dim,
        num_heads=config.num_heads,
        head_dim=config.head_dim,
        ff_dim=config.ff_dim,
        num_layers=config.num_layers,
        gated=config.block == "modern",
    )


def train(context: Context, config: Any, observe: Any) -> int:
    """Trains until `observe` raises `Finished`; returns the memory after the imports, in bytes."""
    import minigpt

    watch(observe)
    command = minigpt.train
    imported = resident()
    with TemporaryDirectory(dir=context.work) as folder:
        try:
            command(config, Path(folder) / "run")
        except Finished:
            return imported
    raise RuntimeError("the training ended before the measurement did")


def start(context: Context, steps: int) -> Outcome:
    """Measures seconds from the start of the process to the end of an update, default configuration."""
    seconds = 0.0

    def observe(model: Any, step: int, event: str) -> None:
        nonlocal seconds
        if event == "step" and step >= steps:
            seconds = context.seconds()
            raise Finished

    train(context, settings(context, "default"), observe)
    return {"value": seconds}


def losses(context: Context, steps: int) -> Outcome:
    """Runs `train-words` without dropout; saves weights and batches for the peer, returns the last loss."""
    import numpy as np

    # The epoch ends at the step of the comparison, and so does any call that makes several updates.
    changes = {"model.dropout_rate": 0.0, "training.steps_per_epoch": steps}
    config = settings(context, "words", **changes)
    from minigpt.corpus.batches import training_batch
    from minigpt.corpus.token_store import open_corpus

    ids = open_corpus(config.data, config.tokenizer).train.ids
    batches = [
        training_batch(ids, WORDS.length, WORDS.batch_size, config.training.seed, step)
        for step in range(steps + 1)
    ]
    loss = 0.0

    def observe(model: Any, step: int, event: str) -> None:
        nonlocal loss
        if event == "begin":
            np.savez(
                context.work / "words.npz",
                inputs=[inputs for inputs, _ in batches],
                targets=[targets for _, targets in batches],
                **tutorial_weights(model),
            )
        if event == "step" and step == steps:
            loss = batch_loss(model, *batches[-1])
            raise Finished

    train(context, config, observe)
    return {"value": loss}


def batch_loss(model: Any, inputs: Any, targets: Any) -> float:
    """Returns the loss of a batch in nats per token, computed for 16 rows at a time, for either model."""
    import numpy as np
    import tensorflow as tf

    rows = []
    for first in range(0, len(inputs), 16):
        logits = model(inputs[first : first + 16], training=False)
        logits = logits[0] if isinstance(logits, list | tuple) else logits
        rows.append(
            tf.nn.sparse_softmax_cross_entropy_with_logits(targets[first : first + 16], logits)
        )
    return float(np.concatenate([row.numpy() for row in rows]).astype(np.float64).mean())


def tutorial_weights(model: Any) -> dict[str, Any]:
    """Returns the miniature GPT's weights in the names and shapes of `keras.layers.MultiHeadAttention`."""
    import numpy as np

    block, config = model.blocks[0], model.config
    attention, size = block.attention, config.embed_dim
    heads = (config.num_heads, attention.head_dim)
    weights = {
        "tokens": model.embedding.token_embedding.embeddings,
        "positions": model.embedding.position_table,
        "output_kernel": np.reshape(attention.output_projection.kernel, (*heads, size)),
        "output_bias": attention.output_projection.bias,
        "head_kernel": model.head.kernel,
        "head_bias": model.head.bias,
    }
    kernels = np.split(np.asarray(attention.qkv.kernel), 3, axis=1)
    biases = np.split(np.asarray(attention.qkv.bias), 3)
    for name, kernel, bias in zip(("query", "key", "value"), kernels, biases, strict=True):
        weights[f"{name}_kernel"] = kernel.reshape(size, *heads)
        weights[f"{name}_bias"] = bias.reshape(heads)
    for name, part in itertools.product(("expand", "contract"), ("kernel", "bias")):
        weights[f"{name}_{part}"] = getattr(getattr(block, name), part)
    for name, part in itertools.product(("norm1", "norm2"), ("gamma", "beta")):
        weights[f"{name}_{part}"] = getattr(getattr(block, name), part)
    return {name: np.asarray(weight) for name, weight in weights.items()}
