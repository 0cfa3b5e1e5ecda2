"""TensorFlow functions as ONNX graphs, and names in graphs that become parts of another one."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import tensorflow as tf

# The newest that tf2onnx writes.
OPSET = 18


# For large graphs: each optimization copies the graph, and the others do not make it faster.
FEW_OPTIMIZATIONS = ("optimize_transpose", "fold_constants", "remove_identity")


def converted(
    function: Callable[..., Any],
    signature: Sequence[tf.TensorSpec],
    optimizations: Sequence[str] | None = None,
) -> Any:
    """Converts a function of tensors.

    Args:
      function: returns a dictionary of tensors; their names are those of the outputs.
      signature: the inputs, with their names.
      optimizations: names of tf2onnx's optimizations; None for all.
    Returns:
      A `ModelProto`.
    """
    # tf2onnx 1.17 uses names that NumPy 2 does not have; Keras replaces them.
    from keras.src.export.tf2onnx_lib import patch_tf2onnx

    with warnings.catch_warnings():
        # It asks NumPy for the old names, and NumPy warns.
        warnings.simplefilter("ignore", FutureWarning)
        patch_tf2onnx()
    import tf2onnx

    graph = tf.function(function, input_signature=signature, autograph=False)
    known = tf2onnx.optimizer._get_optimizers()
    chosen = {name: known[name] for name in optimizations or known}
    # `from_function` has no argument for them, as `from_keras` has.
    with patch.object(tf2onnx.optimizer, "_get_optimizers", lambda: chosen):
        model, _ = tf2onnx.convert.from_function(
            graph, input_signature=graph.input_signature, opset=OPSET
        )
    return model


def rename(graph: Any, prefix: str, ports: Mapping[str, str]) -> None:
    """Renames everything in a graph and its subgraphs.

    Args:
      graph: a `GraphProto`, which is changed.
      prefix: what every name begins with from now on.
      ports: old name → new name, for those that do not get the prefix.
    """

    def new(name: str) -> str:
        return ports.get(name, prefix + name) if name else ""

    for node in graph.node:
        node.name = new(node.name)
        node.input[:] = map(new, node.input)
        node.output[:] = map(new, node.output)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename(attribute.g, prefix, ports)
    for named in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        named.name = new(named.name)
