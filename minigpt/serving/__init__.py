"""The HTTP server: OpenAI's protocol over the engine of portable files. Imports no TensorFlow."""
