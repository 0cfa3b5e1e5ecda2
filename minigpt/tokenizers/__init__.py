"""Text to token ids and back, without TensorFlow: words, characters, and pieces of words.

Each kind of tokenizer is a subclass of `base.Tokenizer` in its own file; `kinds` lists them.
`graph.graph_of` returns the same tokenizer in TensorFlow operations, with the same ids and texts.
"""
