"""The part that all exported text graphs share: tokenizer, detokenizer, saving."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from minigpt.environment import hide_tensorflow_log
from minigpt.tokenizers import Tokenizer


class TextModule(tf.Module):
    """A model with its tokenizer as TensorFlow functions.

    Loads with `tf.saved_model.load` in a process that imported tensorflow and, for a byte-pair tokenizer,
    tensorflow_text.

    Args:
      model: the Keras model.
      tokenizer: its tokenizer.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        super().__init__(name="minigpt")
        self.model = model
        self.tokenizer = tokenizer.graph()

    def signatures(self) -> Mapping[str, Any]:
        """Returns the functions that the SavedModel offers, by name."""
        return {"tokenize": self.tokenize, "detokenize": self.detokenize}

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def tokenize(self, text):  # type: ignore[no-untyped-def]
        """string[B] → {"token_ids": int32[B, T], right-padded with 0, "lengths": int32[B]}.

        The ids do not include end tokens.
        """
        ids = self.tokenizer.encode(text)
        return {"token_ids": ids.to_tensor(), "lengths": tf.cast(ids.row_lengths(), tf.int32)}

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, "token_ids"),
            tf.TensorSpec([None], tf.int32, "lengths"),
        ],
    )
    def detokenize(self, token_ids, lengths):  # type: ignore[no-untyped-def]
        """int32[B, T], int32[B] → {"text": string[B]}."""
        return {"text": self.tokenizer.decode(tf.RaggedTensor.from_tensor(token_ids, lengths))}

    def save(self, folder: Path) -> None:
        """Writes a SavedModel into an empty folder."""
        with hide_tensorflow_log():
            tf.saved_model.save(self, str(folder), self.signatures())
