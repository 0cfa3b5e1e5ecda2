"""Tests of minigpt."""

import os

# XLA compiles without most of LLVM's optimizations: its tests take a third less time. Processes that a test
# starts inherit it, so that both compute the same.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0"

import minigpt

# Imports Keras and TensorFlow without their log lines, before a test does.
_ = minigpt.GPT
