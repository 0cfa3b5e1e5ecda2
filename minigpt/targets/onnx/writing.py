"""ONNX: a folder with the model as a graph, for onnxruntime and other programs."""

import logging
from pathlib import Path

from minigpt.environment import hide_tensorflow_log
from minigpt.models import GPT
from minigpt.targets.cached_step import CachedStep
from minigpt.targets.documents import documents
from minigpt.targets.onnx.conversion import converted
from minigpt.targets.onnx.text.encoders import encoder_problem
from minigpt.targets.onnx.text.writing import build_text_graph
from minigpt.targets.onnx.weights import store_weights
from minigpt.targets.targets import ExportSource, WeightsType

MODEL_FILE, TEXT_FILE = "model.onnx", "text_to_text.onnx"
logger = logging.getLogger(__name__)


def write_onnx(source: ExportSource, folder: Path, weights: WeightsType) -> None:
    """Writes `model.onnx`, `text_to_text.onnx`, the settings and the tokenizer; see docs/onnx.md.

    A tokenizer that ONNX cannot express leaves out `text_to_text.onnx`, with a warning.

    Args:
      source: the run.
      folder: an empty folder.
      weights: how matrices are stored. They are read as float32.
    Raises:
      OSError: a file cannot be written.
    """
    import onnx

    assert isinstance(source.model, GPT)
    step = CachedStep(source.model)
    files = documents(source, weights)
    problem = encoder_problem(source.tokenizer)
    with hide_tensorflow_log():
        graph = converted(step.step, step.signature(None, None))
        graphs = {MODEL_FILE: store_weights(graph, weights)}
        if problem is None:
            graphs[TEXT_FILE] = build_text_graph(step, source.tokenizer, weights)
    if problem is not None:
        logger.warning("%s is not written: %s", TEXT_FILE, problem)
    for name, graph in graphs.items():
        onnx.helper.set_model_props(graph, {"minigpt": files["minigpt.json"].decode()})
        onnx.checker.check_model(graph)
        onnx.save(graph, folder / name)
    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
