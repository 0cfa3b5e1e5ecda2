"""The run directory: its layout, lock, checkpoints and records. Imports no TensorFlow."""
