"""Training: what is minimised, how, and what is watched meanwhile."""

from minigpt.training.callbacks.text_generator import TextGenerator
from minigpt.training.resuming import resume
from minigpt.training.trainer import train

__all__ = ["TextGenerator", "resume", "train"]
