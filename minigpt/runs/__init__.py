"""The run directory: its layout, lock, checkpoints and records."""
