"""Models built from layers."""

from minigpt.models.gpt import GPT, build_gpt

__all__ = ["GPT", "build_gpt"]
