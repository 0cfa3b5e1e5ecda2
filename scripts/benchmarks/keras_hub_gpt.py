"""Measures a GPT of keras-hub's layers, trained with `fit`, and `generate` of its GPT-2."""

import statistics
import time
from typing import Any

from benchmarks.keras_fit import fit_speed
from benchmarks.measuring import Context, Outcome
from benchmarks.our_training import SIZES
from benchmarks.sizes import GPT2_124M, SMALL, Sizes


def build(sizes: Sizes, jit: bool) -> Any:
    """Returns a model: embedding, pre-norm decoder blocks, tied head; compiled with AdamW and clipping."""
    import keras
    import keras_hub

    ids = keras.Input((sizes.length,), dtype="int32")
    embedding = keras_hub.layers.TokenAndPositionEmbedding(
        sizes.vocab_size, sizes.length, sizes.embed_dim
    )
    x = embedding(ids)
    for _ in range(sizes.num_layers):
        x = keras_hub.layers.TransformerDecoder(
            sizes.ff_dim,
            sizes.num_heads,
            activation=lambda x: keras.activations.gelu(x, approximate=True),
            normalize_first=True,
        )(x)
    x = keras.layers.LayerNormalization()(x)
    model = keras.Model(ids, embedding.token_embedding(x, reverse=True))
    optimizer = keras.optimizers.AdamW(1e-3, weight_decay=0.1, beta_2=0.99, global_clipnorm=1.0)
    # By name, because the biases of attention are arrays [heads, size].
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit,
    )
    return model


def speed(context: Context, system: str, jit: bool, steps: int, seconds: float) -> Outcome:
    """Measures tokens per second of `fit` with prepared batches."""
    import keras_hub  # noqa: F401

    sizes = SIZES[system]
    return fit_speed(lambda: build(sizes, jit), sizes, 8, steps, seconds)


def generation(
    context: Context, model: str, rows: int, new_tokens: int, calls: int, jit: bool | str
) -> Outcome:
    """Measures tokens per second of GPT2CausalLM.generate without a preset, without the first call."""
    import keras
    import keras_hub
    import numpy as np

    sizes = GPT2_124M if model == "124m" else SMALL
    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=sizes.vocab_size,
        num_layers=sizes.num_layers,
        num_heads=sizes.num_heads,
        hidden_dim=sizes.embed_dim,
        intermediate_dim=sizes.ff_dim,
        dropout=0.0,
        max_sequence_length=sizes.context,
    )
    gpt = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    gpt.compile(sampler=keras_hub.samplers.TopKSampler(k=10), jit_compile=jit)
    # One token of prompt and space for the rest.
    inputs = {
        "token_ids": np.ones((rows, 1 + new_tokens), np.int32),
        "padding_mask": np.arange(1 + new_tokens)[None].repeat(rows, 0) < 1,
    }
    taken = []
    for _ in range(1 + calls):
        began = time.perf_counter()
        out = gpt.generate(inputs, stop_token_ids=None)
        taken.append(time.perf_counter() - began)
        assert out["token_ids"].shape == (rows, 1 + new_tokens)
    return {"value": rows * new_tokens / statistics.median(taken[1:]), "first": taken[0]}
