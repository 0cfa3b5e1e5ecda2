"""ONNX: a folder with the model as a graph, for onnxruntime and other programs."""

from pathlib import Path
from typing import Any

import tensorflow as tf

from minigpt.environment import hide_tensorflow_log
from minigpt.export.cached_step import CachedStep
from minigpt.export.onnx_weights import store_weights
from minigpt.export.source import ExportSource
from minigpt.portable.writing import WeightsType

MODEL_FILE = "model.onnx"
# The newest that tf2onnx writes.
_OPSET = 18


def write_onnx(source: ExportSource, folder: Path, weights: WeightsType) -> None:
    """Writes `model.onnx`, the settings and the tokenizer; see docs/onnx.md.

    Args:
      source: the run.
      folder: an empty folder.
      weights: how matrices are stored. They are read as float32.
    Raises:
      UserError: the model is not a GPT.
      OSError: a file cannot be written.
    """
    import onnx

    step = CachedStep(source.model, "onnx")
    documents = source.documents(weights)
    with hide_tensorflow_log():
        graph = store_weights(_converted(step), weights)
    onnx.helper.set_model_props(graph, {"minigpt": documents["minigpt.json"].decode()})
    onnx.checker.check_model(graph)
    onnx.save(graph, folder / MODEL_FILE)
    for name, data in documents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)


def _converted(step: CachedStep) -> Any:
    """Returns the `ModelProto` of `CachedStep.step`."""
    # tf2onnx 1.17 uses names that NumPy 2 does not have; Keras replaces them.
    from keras.src.export.tf2onnx_lib import patch_tf2onnx

    patch_tf2onnx()
    import tf2onnx

    function = tf.function(step.step, input_signature=step.signature(None, None), autograph=False)
    model, _ = tf2onnx.convert.from_function(
        function, input_signature=function.input_signature, opset=_OPSET
    )
    return model
