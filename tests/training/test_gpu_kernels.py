"""Every operation of training and validation, and all but one of generation, have kernels for GPUs.

There is no GPU here: TensorFlow's registry is asked, which lists the kernels of the installed package.
"""

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

from minigpt.config import load_config
from minigpt.config.training import TrainingConfig
from minigpt.generation.decoding import Decoder
from minigpt.generation.translator import Translator
from minigpt.models import build_model
from minigpt.training.optimizers import build_optimizer

# Kernels change only with TensorFlow and with new operations.
pytestmark = pytest.mark.slow

VOCAB = 50
SIZES = {"max_len": 16, "embed_dim": 16, "num_heads": 2, "num_layers": 1}
DROPOUT = {"dropout_rate": 0.1, "attention_dropout_rate": 0.1, "ff_dropout_rate": 0.1}
MODELS: dict[str, dict[str, Any]] = {
    "modern": {"block": "modern", **DROPOUT},
    "pre_norm": {"block": "pre_norm", "tie_embeddings": True, "position": "learned", **DROPOUT},
    "post_norm": {"block": "post_norm", **DROPOUT},
    "translation": {"kind": "encoder_decoder", "block": "post_norm", **DROPOUT},
}
# "DEFAULT" kernels serve every device that has none of its own.
GPU = {"GPU", "DEFAULT"}
# Built into the executor of graphs, or replaced before it runs.
NO_KERNEL = {"Placeholder", "Const", "NoOp", "_Arg", "_Retval", "NextIteration"}


def without_kernel(function: Any, devices: set[str] = GPU) -> set[str]:
    """The operations of a graph, and of the functions it calls, that these devices cannot run."""
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    names = {f.signature.name for f in graph.library.function}
    assert len(nodes) > 50
    return {
        node.op
        for node in nodes
        if node.op not in NO_KERNEL | names and not has_kernel(node, devices)
    }


def has_kernel(node: Any, devices: set[str]) -> bool:
    registered = kernels.get_registered_kernels_for_op(node.op).kernel
    return any(kernel.device_type in devices and fits(kernel, node) for kernel in registered)


def fits(kernel: Any, node: Any) -> bool:
    return all(
        node.attr[constraint.name].type in constraint.allowed_values.list.type
        for constraint in kernel.constraint
    )


def build(model: str, optimizer: str, precision: str) -> Any:
    settings = {"model": {**SIZES, **MODELS[model]}}
    if model == "translation":
        settings["data"] = {"source": "pairs", "paths": ["pairs.tsv"]}
    built = build_model(load_config(settings).model, VOCAB, precision)
    training = TrainingConfig(optimizer=optimizer, accumulate_steps=2)
    built.compile(
        build_optimizer(training, built),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    return built


def batch(model: str) -> tuple[Any, Any]:
    ids = np.ones((4, 16), np.int32)
    return ((ids, np.full(4, 16, np.int32), ids), ids) if model == "translation" else (ids, ids)


# To trace a step takes seconds. Every model, optimizer and precision.
CASES = [
    ("modern", "muon", "mixed_float16"),
    ("translation", "muon", "mixed_bfloat16"),
    ("modern", "adamw", "float32"),
    ("pre_norm", "adam", "mixed_bfloat16"),
    ("post_norm", "sgd", "mixed_float16"),
    ("translation", "muon", "float32"),
]


@pytest.mark.parametrize(("model", "optimizer", "precision"), CASES)
def test_training_step(model, optimizer, precision):
    # XLA's kernels are registered when it is first used.
    assert int(tf.function(lambda x: x + 1, jit_compile=True)(1)) == 2
    built = build(model, optimizer, precision)
    step = tf.function(built.train_step, autograph=False).get_concrete_function(batch(model))
    assert without_kernel(step) == set()
    # What has no kernel for CPUs either is compiled in another way: control flow, calls.
    assert without_kernel(step, {"XLA_GPU_JIT"}) == without_kernel(step, {"XLA_CPU_JIT"})


@pytest.mark.parametrize(("model", "optimizer", "precision"), CASES)
def test_generation(model, optimizer, precision):
    """Drawing, within the context and beyond it; translation, greedily and by beam search."""
    built = build(model, optimizer, precision)
    if model == "translation":
        ids = SimpleNamespace(end_id=1, start_id=1, never_sampled_ids=[0])
        # A variable each: `tf.function` does not keep the object of its method.
        translator = Translator(built, ids)
        loop: Any = translator.translate
    else:
        decoder = Decoder(built, end_id=1, never_sampled_ids=[0])
        loop = decoder.generate
    assert int(tf.function(lambda x: x + 1, jit_compile=True)(1)) == 2
    traced = loop.get_concrete_function()
    # It has none for half-precision caches and for the boolean table of the tokens in the text. XLA
    # compiles it in the loops of `generate`; elsewhere TensorFlow runs it on the CPU: docs/gpu.md.
    exact = (model, precision) == ("translation", "float32")
    assert without_kernel(traced) == (set() if exact else {"TensorScatterUpdate"})
    assert without_kernel(traced, {"XLA_GPU_JIT"}) == without_kernel(traced, {"XLA_CPU_JIT"})
