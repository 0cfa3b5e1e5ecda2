"""Reads a SavedModel with TensorFlow alone."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

# Registers the operations of the tokenizers.
import tensorflow_text  # noqa: F401

from minigpt.errors import ArgumentProblem, UserError
from minigpt.targets.certification.exported import ExportedModel


class SavedModelFolder(ExportedModel):
    """The signatures `tokenize`, `logits` and `serving_default`."""

    packages = ("tensorflow", "tensorflow-text")

    def __init__(self, path: Path) -> None:
        # The signatures hold no reference to the model.
        self._loaded = tf.saved_model.load(str(path))
        self._signatures = self._loaded.signatures
        if not {"tokenize", "logits", "serving_default"} <= set(self._signatures):
            raise UserError(ArgumentProblem("path", path, "is a SavedModel of another program"))

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        found = self._signatures["tokenize"](text=tf.constant(lines))
        ids, lengths = found["token_ids"].numpy(), found["lengths"].numpy()
        return [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]

    def logits(self, token_ids: np.ndarray, source_ids: np.ndarray | None = None) -> np.ndarray:
        inputs = {"token_ids": token_ids[None]}
        if source_ids is not None:
            inputs = {
                "source_ids": source_ids[None],
                "source_lengths": np.array([len(source_ids)], np.int32),
                "target_ids": token_ids[None],
            }
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        logits = self._signatures["logits"]
        if tensors.keys() != logits.structured_input_signature[1].keys():
            raise UserError("the export is another kind of model; should be an export of this run")
        try:
            found: np.ndarray = logits(**tensors)["logits"][0].numpy()
        except tf.errors.InvalidArgumentError as error:
            # It has another context, or another vocabulary.
            asserted = re.search(r"assertion failed: (.+)", error.message)
            reason = re.sub(r"[][]", "", asserted[1]) if asserted else "its tokens are others"
            raise UserError(f"{reason}; the export should be one of this run") from None
        return found

    def continue_greedily(self, prompts: Sequence[str], max_new_tokens: int) -> list[str]:
        # One at a time: XLA compiles each number of rows, which takes longer.
        return [self._continuation(prompt, max_new_tokens) for prompt in prompts]

    def _continuation(self, prompt: str, max_new_tokens: int) -> str:
        serve, texts = self._signatures["serving_default"], tf.constant([prompt])
        new_tokens = tf.constant(max_new_tokens)
        if "prompt" in serve.structured_input_signature[1]:
            settings = {"temperature": 0.0, "top_k": 1, "top_p": 1.0, "seed": 0}
            tensors = {name: tf.constant(value) for name, value in settings.items()}
            found = serve(prompt=texts, max_new_tokens=new_tokens, **tensors)
        else:
            search = {"beams": tf.constant(1), "length_penalty": tf.constant(1.0)}
            found = serve(text=texts, max_new_tokens=new_tokens, **search)
        text: bytes = found["text"].numpy()[0]
        return text.decode()
