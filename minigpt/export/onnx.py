"""ONNX: a folder with the model as a graph, for onnxruntime and other programs."""

from pathlib import Path

from minigpt.environment import hide_tensorflow_log
from minigpt.export.cached_step import CachedStep
from minigpt.export.onnx_conversion import converted
from minigpt.export.onnx_weights import store_weights
from minigpt.export.source import ExportSource
from minigpt.portable.writing import WeightsType

MODEL_FILE = "model.onnx"


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
        graph = store_weights(converted(step.step, step.signature(None, None)), weights)
    onnx.helper.set_model_props(graph, {"minigpt": documents["minigpt.json"].decode()})
    onnx.checker.check_model(graph)
    onnx.save(graph, folder / MODEL_FILE)
    for name, data in documents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
