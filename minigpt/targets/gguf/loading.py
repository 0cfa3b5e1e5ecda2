"""Opens a portable file."""

from pathlib import Path

from minigpt.errors import as_path
from minigpt.targets.gguf.instance import Engine
from minigpt.targets.gguf.text_model import PortableTextModel, PortableTranslationModel


def load_portable(path: str | Path) -> PortableTextModel | PortableTranslationModel:
    """Opens a portable file, `model.gguf`. Needs NumPy and wasmtime, but no TensorFlow.

    Args:
      path: the file.
    Returns:
      A `PortableTextModel`; a `PortableTranslationModel` if the model was trained on pairs.
    Raises:
      UserError: the file cannot be read, or is not a portable file.
      TypeError: `path` is not a path.
    """
    path = as_path("path", path)
    engine = Engine(path)
    is_gpt = engine.key("minigpt.model.kind") == "gpt"
    return (PortableTextModel if is_gpt else PortableTranslationModel)(engine, path)
