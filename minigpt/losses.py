"""The public training losses."""

# Keras first: its import registers the models, which import these functions (see minigpt/__init__.py).
import keras  # noqa: F401

from minigpt.models.losses import SmoothedCrossentropy, chunked_crossentropy

__all__ = ["SmoothedCrossentropy", "chunked_crossentropy"]
