"""The public training losses."""

# Keras first: its import registers the models, which import these functions (see minigpt/__init__.py).
import keras  # noqa: F401

from minigpt.models.losses.chunked_crossentropy import chunked_crossentropy
from minigpt.models.losses.smoothed_crossentropy import SmoothedCrossentropy

__all__ = ["SmoothedCrossentropy", "chunked_crossentropy"]
