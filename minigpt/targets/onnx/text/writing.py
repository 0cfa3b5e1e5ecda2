"""Puts tokenizer, decoding loop and detokenizer into one ONNX graph from strings to strings."""

from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.config.sampling import BY_NAME
from minigpt.targets.cached_step import CachedStep
from minigpt.targets.onnx.graphs import FEW_OPTIMIZATIONS, converted, rename, store_weights
from minigpt.targets.onnx.text.detokenizing import Detokenizer
from minigpt.targets.onnx.text.encoding import build_encoder
from minigpt.targets.onnx.text.generating import SAMPLED, Generator
from minigpt.targets.onnx.text.strings import (
    HASHES,
    RUNTIME_DOMAIN,
    characters,
    hashing,
    joining,
    padded_to_power_of_two,
)
from minigpt.targets.targets import WeightsType
from minigpt.tokenizers import Tokenizer

# The first one with StringConcat.
_OPSET = 20
# The version of the file format that belongs to it.
_IR_VERSION = 9
_SETTINGS = {
    "max_new_tokens": tf.int32,
    **{spec.name: spec.dtype for spec in SAMPLED},
    "seed": tf.int32,
}
# The inputs of the first version. Later ones need not be given.
_REQUIRED = {"max_new_tokens", "temperature", "top_k", "top_p", "seed"}


def build_text_graph(step: CachedStep, tokenizer: Tokenizer, weights: WeightsType) -> Any:
    """Builds the graph of `text_to_text.onnx`; see docs/onnx.md.

    Args:
      step: the model.
      tokenizer: its tokenizer, without an `encoder_problem`.
      weights: how matrices are stored.
    Returns:
      A `ModelProto`. Inputs: prompt string[B]; max_new_tokens, the settings of `SAMPLED` and seed, each a
      scalar, of which those that are not in `_REQUIRED` have a default. Outputs: text string[B], the
      continuations; prompt_ids int32[B, T], the token ids of the prompts, shorter rows padded with -1.
    """
    from onnx import TensorProto, helper, numpy_helper

    generator = Generator(step, tokenizer.end_id, tokenizer.never_sampled_ids)
    graphs = [
        hashing(),
        _reading(generator, tokenizer),
        _looping(generator, weights),
        _writing(generator, tokenizer),
        joining(),
    ]
    nodes = [node for graph in graphs for node in graph.node]
    initializers = [initializer for graph in graphs for initializer in graph.initializer]
    inputs = [helper.make_tensor_value_info("prompt", TensorProto.STRING, ["B"])]
    for name, dtype in _SETTINGS.items():
        number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype.as_numpy_dtype))
        inputs.append(helper.make_tensor_value_info(name, number, []))
        if name not in _REQUIRED:
            # An initializer with the name of an input is its default.
            value = np.array(BY_NAME[name].neutral, dtype.as_numpy_dtype)
            initializers.append(numpy_helper.from_array(value, name))
    outputs = [
        helper.make_tensor_value_info("text", TensorProto.STRING, ["B"]),
        helper.make_tensor_value_info("prompt_ids", TensorProto.INT32, ["B", "T"]),
    ]
    graph = helper.make_graph(nodes, "minigpt", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(RUNTIME_DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)


def _reading(generator: Generator, tokenizer: Tokenizer) -> Any:
    """Returns the graph before the loop: hashes of characters → ids, and the values of the first pass."""
    encode = build_encoder(tokenizer)

    def read(*arguments: Any) -> dict[str, Any]:
        *hashes, rows, max_new_tokens, seed = arguments
        ids = encode(characters(tuple(hashes)))
        # Without a prompt, one is read all the same.
        limit = tf.where(rows[0] > 0, max_new_tokens, 0)
        return {"ids": ids, **generator.begin(ids, limit, seed)}

    hashes = [tf.TensorSpec([None, None], tf.int64, name) for name in HASHES]
    rows = tf.TensorSpec([1], tf.int64, "rows")
    signature = [*hashes, rows, *map(_setting, ("max_new_tokens", "seed"))]
    return _part("read", read, signature)


def _looping(generator: Generator, weights: WeightsType) -> Any:
    """Returns the graph of the loop: values of the first pass → those after the last one, `last_...`."""
    from onnx import TensorProto, helper

    signature = generator.signature()
    body = store_weights(converted(generator.advance, signature, FEW_OPTIMIZATIONS), weights).graph
    outputs = {output.name for output in body.output}
    state = [spec.name for spec in signature if f"new_{spec.name}" in outputs]
    inside = {name: f"step/{name}" for name in [*state, "iteration", *outputs]}
    rename(body, "step/", {each.name: each.name for each in body.input} | inside)
    infos = {each.name: each for each in (*body.input, *body.output)}
    # What does not change is not an input: the body sees it in the graph around it.
    del body.input[:], body.output[:]
    continued = helper.make_tensor_value_info("step/continued", TensorProto.BOOL, [])
    body.input.extend([infos["step/iteration"], continued])
    body.input.extend(infos[f"step/{name}"] for name in state)
    body.output.append(infos["step/continues"])
    body.output.extend(infos[f"step/new_{name}"] for name in state)
    node = helper.make_node(
        "Loop", ["limit", "continues", *state], [f"last_{name}" for name in state], body=body
    )
    return helper.make_graph([node], "loop", [], [])


def _writing(generator: Generator, tokenizer: Tokenizer) -> Any:
    """Returns the graph after the loop: the ids of the texts → their bytes, for `joining`."""
    detokenizer = Detokenizer(tokenizer)

    def write(ids: Any, token_ids: Any, prompt_lengths: Any, new_lengths: Any) -> dict[str, Any]:
        both = generator.finish(ids, token_ids, prompt_lengths, new_lengths)
        data, rounds = padded_to_power_of_two(detokenizer.continuation(ids, both))
        return {"bytes": data, "rounds": rounds}

    names = ("ids", "last_token_ids", "prompt_lengths", "last_new_lengths")
    signature = [
        tf.TensorSpec([None, None] if name.endswith("ids") else [None], tf.int32, name)
        for name in names
    ]
    return _part("write", write, signature)


def _setting(name: str) -> tf.TensorSpec:
    return tf.TensorSpec([], _SETTINGS[name], name)


def _part(name: str, function: Any, signature: list[tf.TensorSpec]) -> Any:
    """Returns a function as a graph; inputs and outputs, which connect the parts, keep their names."""
    graph = converted(function, signature, FEW_OPTIMIZATIONS).graph
    rename(graph, f"{name}/", {each.name: each.name for each in (*graph.input, *graph.output)})
    return graph
