"""Models built from layers."""

# Keras first: its import already brings the module below (see minigpt/__init__.py).
import keras  # noqa: F401

from minigpt.models.gpt import GPT, build_gpt

__all__ = ["GPT", "build_gpt"]
