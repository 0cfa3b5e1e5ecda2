"""The tasks that a model can be trained for, one per file."""
