"""TensorFlow functions as ONNX graphs, and how their matrices are stored."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

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
