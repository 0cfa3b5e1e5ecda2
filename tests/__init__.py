"""Tests of minigpt."""

import minigpt

# Imports Keras and TensorFlow without their log lines, before a test does.
_ = minigpt.GPT
