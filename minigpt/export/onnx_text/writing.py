"""Puts tokenizer, decoding loop and detokenizer into one ONNX graph from strings to strings."""

from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.export.cached_step import CachedStep
from minigpt.export.onnx_text.characters import SEEDS, characters
from minigpt.export.onnx_text.detokenizing import Detokenizer
from minigpt.export.onnx_text.encoders import build_encoder
from minigpt.export.onnx_text.generating import Generator
from minigpt.export.onnx_text.rows import NOTHING
from minigpt.generation import SamplingSettings
from minigpt.tokenizers import Tokenizer

# Of the strings of bytes: the empty one.
_NO_BYTE = 256

class TextGraph:
    """The part of the graph that computes with numbers, as a TensorFlow function.

    Args:
      step: the model.
      tokenizer: its tokenizer, without an `encoder_problem`.
    """

    def __init__(self, step: CachedStep, tokenizer: Tokenizer) -> None:
        self._encode, self._detokenizer = build_encoder(tokenizer), Detokenizer(tokenizer)
        self._generator = Generator(step, tokenizer.end_id, tokenizer.undrawable_ids)

    def serve(  # type: ignore[no-untyped-def]
        self, hash_0, hash_1, max_new_tokens, temperature, top_k, top_p, seed
    ):
        ids, lengths = self._encode(*characters((hash_0, hash_1)))
        settings = SamplingSettings(temperature, top_k, top_p).as_tensors()
        both = self._generator.generate(ids, lengths, max_new_tokens, settings, seed)
        data = self._detokenizer.continuation(ids, both)
        width, rounds = tf.shape(data)[1], tf.constant(0)
        # Strings are joined in pairs: a power of two of them.
        rounds = tf.reduce_sum(tf.cast(width > tf.constant([2**i for i in range(31)]), tf.int32))
        size = tf.cast(2 ** tf.cast(rounds, tf.float32), tf.int32)
        data = tf.pad(data, [[0, 0], [0, size - width]], constant_values=NOTHING)
        return {"bytes": tf.where(data == NOTHING, _NO_BYTE, data), "rounds": tf.cast(rounds, tf.int64)}
