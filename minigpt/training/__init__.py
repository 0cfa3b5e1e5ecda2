"""Training: from a configuration to a trained and exported model. `pipeline.py` is the place to begin.

Nothing is imported here, so that `minigpt.training.console` can be used without TensorFlow.
"""
