"""Scores of a model on text it was not trained on.

`text` and `pairs` compute the loss and import TensorFlow; the rest does not.
"""
