"""Tokenizers in TensorFlow operations, one kind a file. `Tokenizer.graph()` imports what it needs."""
