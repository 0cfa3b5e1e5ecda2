"""Keras layers: the parts of the models. `minigpt.layers` lists the public ones."""
