"""Optimizers of Keras, changed for several replicas or for speed."""

# Keras first: its import registers these classes (see minigpt/__init__.py).
import keras  # noqa: F401
