"""The portable file `model.gguf` and the engine that runs it. Imports no TensorFlow."""
