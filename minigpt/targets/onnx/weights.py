"""How the matrices of an ONNX graph are stored: float32, float16 or int8."""

from typing import Any

import numpy as np

from minigpt.targets.targets import WeightsType

# How matrices are stored → the name that transformers.js has for it, and its file.
MODEL_FILES: dict[WeightsType, tuple[str, str]] = {
    "float32": ("fp32", "model.onnx"),
    "float16": ("fp16", "model_fp16.onnx"),
    "int8": ("q8", "model_quantized.onnx"),
}
# Smaller tensors, such as gains, stay in float32.
_SMALLEST = 1024


def store_weights(model: Any, weights: WeightsType) -> Any:
    """Replaces the matrices of a graph by smaller ones that are converted to float32 when it is loaded.

    The conversions are standard operators of constants: every program computes the same float32 matrices.

    Args:
      model: a `ModelProto`, which is changed.
      weights: "float16"; or "int8", with one scale for each column of a matrix and each row of a table.
    Returns:
      `model`.
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
        # ONNX Runtime would merge DequantizeLinear with the product behind it, which changes the logits.
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
