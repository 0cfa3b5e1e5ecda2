"""Training losses."""

# Keras first: its import registers the models, which import these functions (see minigpt/__init__.py).
import keras  # noqa: F401
