"""The run directory: its layout, lock, checkpoints and records. Imports no TensorFlow."""

from minigpt.runs.run import Run

__all__ = ["Run"]
