"""TensorFlow functions as ONNX graphs; how matrices are stored; and the graph for transformers.js."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.models import GPT
from minigpt.models.layers.attention import CausalSelfAttention, attend
from minigpt.models.layers.variants import POSITIONS
from minigpt.targets.targets import WeightsType

# The newest that tf2onnx writes.
OPSET = 18


def converted(function: Callable[..., Any], signature: Sequence[tf.TensorSpec]) -> Any:
    """Returns the `ModelProto` of a function, which returns tensors by the names of the outputs."""
    # tf2onnx 1.17 uses names that NumPy 2 does not have; Keras replaces them.
    from keras.src.export.tf2onnx_lib import patch_tf2onnx

    with warnings.catch_warnings():
        # It asks NumPy for the old names, and NumPy warns.
        warnings.simplefilter("ignore", FutureWarning)
        patch_tf2onnx()
    import tf2onnx

    graph = tf.function(function, input_signature=signature, autograph=False)
    model, _ = tf2onnx.convert.from_function(
        graph,
        input_signature=graph.input_signature,
        opset=OPSET,
        custom_op_handlers={"Erfc": (_convert_erfc, [])},
    )
    return model


def _convert_erfc(graph: Any, node: Any, name: str, _: Any) -> None:
    """Replaces Erfc, which TensorFlow's GELU has and ONNX has not, by 1 - Erf."""
    inputs, outputs = node.input[:], node.output[:]
    shapes, dtypes = node.output_shapes, node.output_dtypes
    graph.remove_node(node.name)
    erf = graph.make_node("Erf", inputs)
    one = graph.make_const(f"{name}/one", np.ones([], np.float32))
    parts = [one.output[0], erf.output[0]]
    graph.make_node("Sub", parts, name=name, outputs=outputs, shapes=shapes, dtypes=dtypes)


def rename(graph: Any, names: Mapping[str, str]) -> None:
    """Renames inputs and outputs of a `GraphProto`, old name → new name."""

    def new(name: str) -> str:
        return names.get(name, name)

    for node in graph.node:
        node.input[:] = map(new, node.input)
        node.output[:] = map(new, node.output)
    for named in (*graph.input, *graph.output, *graph.value_info):
        named.name = new(named.name)


# Smaller tensors, such as gains, stay in float32.
_SMALLEST = 1024


def store_weights(model: Any, weights: WeightsType) -> Any:
    """Replaces the matrices of a graph by smaller ones that are converted to float32 when it is loaded.

    The conversions are standard operators of constants: every program computes the same float32 matrices.
    With "int8" there is one scale for each column of a matrix and each row of a table.

    Returns:
      `model`, a `ModelProto`, which is changed.
    """
    from onnx import helper, numpy_helper

    if weights == "float32":
        return model
    graph = model.graph
    tables = {node.input[0] for node in graph.node if node.op_type == "Gather"}
    nodes, initializers = [], []
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.float32 or array.ndim < 2 or array.size < _SMALLEST:
            initializers.append(tensor)
            continue
        stored = f"{tensor.name}/stored"
        if weights == "float16":
            initializers.append(numpy_helper.from_array(array.astype(np.float16), stored))
            nodes.append(helper.make_node("Cast", [stored], [tensor.name], to=1))
            continue
        values, scale = _quantized(array, 0 if tensor.name in tables else array.ndim - 1)
        names = [stored, f"{tensor.name}/scale"]
        initializers += map(numpy_helper.from_array, (values, scale), names)
        # ONNX Runtime would merge DequantizeLinear with the product after it, which changes the logits.
        whole = f"{tensor.name}/whole"
        nodes.append(helper.make_node("Cast", names[:1], [whole], to=1))
        nodes.append(helper.make_node("Mul", [whole, names[1]], [tensor.name]))
    nodes += graph.node
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(initializers)
    return model


def _quantized(array: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns int8 values, and float32 scales along an axis; the other axes of the scales have length 1."""
    others = tuple(i for i in range(array.ndim) if i != axis)
    largest = np.abs(array).max(others, keepdims=True)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return np.rint(array / scale).astype(np.int8), scale


def growing_graph(model: GPT, end_id: int) -> Any:
    """Builds the `ModelProto` of a GPT whose cache grows with the text, for transformers.js.

    Inputs: `input_ids` int64[B, T], the new tokens; `attention_mask` int64[B, P + T], 0 for padding, which
    is on the left; and for each block i `past_key_values.i.key` and `.value`, float32[B, G, P, K], the
    keys and values of the P tokens before. Outputs: `logits` float32[B, T, V]; `present.i.key` and
    `.value`, float32[B, G, P + T, K].

    After `max_len` tokens, a text can only end: transformers.js does not know `max_len`.
    """
    from onnx import TensorProto, helper

    parts = [f"{i}.{part}" for i in range(len(model.blocks)) for part in ("key", "value")]
    # TensorFlow has no dots in names.
    plain = [part.replace(".", "_") for part in parts]
    renamed = [(f"past_{a}", f"past_key_values.{b}") for a, b in zip(plain, parts, strict=True)]
    renamed += [(f"present_{a}", f"present.{b}") for a, b in zip(plain, parts, strict=True)]

    def step(input_ids: Any, attention_mask: Any, *past: Any) -> dict[str, Any]:
        logits, present = _step(model, end_id, input_ids, attention_mask, past)
        return {"logits": logits} | {f"present_{a}": x for a, x in zip(plain, present, strict=True)}

    heads = [[cache.shape[1], cache.shape[3]] for cache in tf.nest.flatten(model.empty_caches(1))]
    inputs = [tf.TensorSpec([None, None], tf.int64, n) for n in ("input_ids", "attention_mask")]
    for name, (number, width) in zip(plain, heads, strict=True):
        inputs += [tf.TensorSpec([None, number, None, width], tf.float32, f"past_{name}")]
    graph = converted(step, inputs)
    rename(graph.graph, dict(renamed))
    # transformers.js creates the empty cache from the names of its axes.
    batch, new = "batch_size", "sequence_length"
    past, whole = "past_sequence_length", "total_sequence_length"
    shapes: dict[str, tuple[int, list[Any]]] = {
        "input_ids": (TensorProto.INT64, [batch, new]),
        "attention_mask": (TensorProto.INT64, [batch, whole]),
        "logits": (TensorProto.FLOAT, [batch, new, model.vocab_size]),
    }
    for part, (number, width) in zip(parts, heads, strict=True):
        for name, length in ((f"past_key_values.{part}", past), (f"present.{part}", whole)):
            shapes[name] = (TensorProto.FLOAT, [batch, number, length, width])
    for each in (*graph.graph.input, *graph.graph.output):
        each.CopyFrom(helper.make_tensor_value_info(each.name, *shapes[each.name]))
    return graph


def _step(
    model: GPT, end_id: int, token_ids: Any, mask: Any, past: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Computes what `model(token_ids)` computes, with left padding and caches that grow."""
    before = tf.shape(past[0])[2]
    real = mask > 0
    # Padding has no position; the first token after it has position 0.
    positions = tf.maximum(tf.cumsum(tf.cast(real, tf.int32), axis=1) - 1, 0)[:, before:]
    new, slots = tf.range(before, tf.shape(mask)[1])[:, None], tf.range(tf.shape(mask)[1])
    # Padding attends to itself: the softmax over an empty set is NaN, which would spread.
    visible = ((slots <= new) & real[:, None, None, :]) | (slots == new)

    x = model.embedding.token_embedding(token_ids)
    table = POSITIONS[model.config.position].table(model.embedding)
    if table is not None:
        x = x + tf.gather(table, tf.minimum(positions, model.max_len - 1))
    present: list[Any] = []
    for i, block in enumerate(model.blocks):
        attention: CausalSelfAttention = block.attention
        query, key, value = attention.project_input(block.sublayer_input(x, block.norm1), positions)
        key = tf.concat([past[2 * i], key], axis=2)
        value = tf.concat([past[2 * i + 1], value], axis=2)
        present += [key, value]
        attended = attend(query, key, value, visible, attention.dropout)
        x = block.residual(x, attention.project_output(attended), block.norm1)
        output = block.feed_forward(block.sublayer_input(x, block.norm2))
        x = block.residual(x, output, block.norm2)
    if model.final_norm is not None:
        x = model.final_norm(x)
    end = tf.where(tf.range(model.vocab_size) == end_id, 0.0, -1e9)
    return tf.where(positions[:, :, None] < model.max_len, model.logits(x), end), present
