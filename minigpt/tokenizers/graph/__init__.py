"""Tokenizers in TensorFlow operations, one kind per file. `Tokenizer.graph()` imports what it needs."""
