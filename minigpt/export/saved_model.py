"""A SavedModel that takes a string and returns a string, with nothing of minigpt needed to run it."""

from pathlib import Path
from typing import Any

import tensorflow as tf

from minigpt.export.folder import new_folder
from minigpt.generation import Decoder
from minigpt.models import GPT
from minigpt.quiet import tensorflow_noise_hidden
from minigpt.tokenizers import Tokenizer


class TextToText(tf.Module):
    """Tokenizer, cached decoding and detokenizer as TensorFlow functions.

    Loads with `tf.saved_model.load` where tensorflow and, for a byte-pair tokenizer, tensorflow_text
    are imported.
    """

    def __init__(self, model: GPT, tokenizer: Tokenizer) -> None:
        super().__init__(name="minigpt")
        self.model = model
        self.tokenizer = tokenizer.graph()
        self.decoder = Decoder(model, tokenizer.end_id, tokenizer.undrawable_ids)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, "prompt"),
            tf.TensorSpec([], tf.int32, "max_new_tokens"),
            tf.TensorSpec([], tf.float32, "temperature"),
            tf.TensorSpec([], tf.int32, "top_k"),
            tf.TensorSpec([], tf.float32, "top_p"),
            tf.TensorSpec([], tf.int32, "seed"),
        ]
    )
    def serve(self, prompt, max_new_tokens, temperature, top_k, top_p, seed):  # type: ignore[no-untyped-def]
        """Continues prompts, each as it would be alone; see `Decoder.continuation`.

        Returns:
          {"text": string[B]}, the continuations alone.
        """
        prompt_ids = self.tokenizer.encode(prompt)
        lengths = tf.cast(prompt_ids.row_lengths(), tf.int32)
        new_ids, new_lengths = self.decoder.continuation(
            prompt_ids.to_tensor(),
            lengths,
            max_new_tokens,
            temperature,
            top_k,
            top_p,
            tf.repeat(seed, tf.size(prompt)),
        )
        new_ids = tf.RaggedTensor.from_tensor(new_ids, new_lengths)
        return {"text": self.tokenizer.continuation(prompt_ids, new_ids)}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "token_ids")])
    def logits(self, token_ids):  # type: ignore[no-untyped-def]
        """int32[B, T], T ≤ max_len → {"logits": float32[B, T, V], "latents": float32[B, T, D]}."""
        length = tf.shape(token_ids)[1]
        fits = tf.debugging.Assert(
            length <= self.model.max_len,
            [f"token_ids: at most max_len = {self.model.max_len} tokens a row, but given", length],
        )
        with tf.control_dependencies([fits]):
            latents = self.model.latents(tf.identity(token_ids))
        return {"logits": self.model.logits(latents), "latents": tf.cast(latents, tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def tokenize(self, text):  # type: ignore[no-untyped-def]
        """string[B] → {"token_ids": int32[B, T], right-padded with 0, "lengths": int32[B]}."""
        ids = self.tokenizer.encode(text)
        return {"token_ids": ids.to_tensor(), "lengths": tf.cast(ids.row_lengths(), tf.int32)}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, "token_ids"),
            tf.TensorSpec([None], tf.int32, "lengths"),
        ]
    )
    def detokenize(self, token_ids, lengths):  # type: ignore[no-untyped-def]
        """int32[B, T], int32[B] → {"text": string[B]}."""
        return {"text": self.tokenizer.decode(tf.RaggedTensor.from_tensor(token_ids, lengths))}


def export_saved_model(model: GPT, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes `folder` as a SavedModel, whole or not at all; parents are created.

    Signatures: `serving_default`, `logits`, `tokenize`, `detokenize`: the methods of `TextToText`.

    Raises:
      UserError: if there is something at `folder` already, or it cannot be written.
    """
    with tensorflow_noise_hidden():
        module = TextToText(model, tokenizer)
    signatures: dict[str, Any] = {
        "serving_default": module.serve,
        "logits": module.logits,
        "tokenize": module.tokenize,
        "detokenize": module.detokenize,
    }
    with new_folder(folder) as unfinished, tensorflow_noise_hidden():
        tf.saved_model.save(module, str(unfinished), signatures)
