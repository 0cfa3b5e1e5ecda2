"""A SavedModel that takes a sentence and returns its translation, with nothing of minigpt needed."""

from pathlib import Path
from typing import Any

import tensorflow as tf

from minigpt.environment import hide_tensorflow_log
from minigpt.generation import Translator
from minigpt.models import EncoderDecoder
from minigpt.storage.folder import new_folder
from minigpt.tokenizers import Tokenizer


class SourceToTarget(tf.Module):
    """Tokenizer, translator and detokenizer as TensorFlow functions.

    Loads with `tf.saved_model.load` where tensorflow and, for a byte-pair tokenizer, tensorflow_text
    are imported.
    """

    def __init__(self, model: EncoderDecoder, tokenizer: Tokenizer) -> None:
        super().__init__(name="minigpt")
        self.model = model
        self.tokenizer = tokenizer.graph()
        self.end_id = tokenizer.end_id
        self.translator = Translator(model, tokenizer.end_id, tokenizer.undrawable_ids)

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None], tf.string, "text"),
            tf.TensorSpec([], tf.int32, "max_new_tokens"),
            tf.TensorSpec([], tf.int32, "beams"),
            tf.TensorSpec([], tf.float32, "length_penalty"),
        ],
    )
    def serve(self, text, max_new_tokens, beams, length_penalty):  # type: ignore[no-untyped-def]
        """Translates sentences, each as it would be alone; see `Translator.translation`.

        White space around a sentence does not count; one of nothing else gives "". Of a source of
        more than max_len tokens, its end token with them, the first max_len - 1 are read, and a line
        on standard error says so; `tokenize` tells lengths beforehand.

        Returns:
          {"text": string[B]}, the translations.
        """
        ids = self.tokenizer.encode(tf.strings.strip(text))
        lengths = tf.cast(ids.row_lengths(), tf.int32) + 1
        most = self.model.max_len
        too_long = tf.squeeze(tf.where(lengths > most), 1)

        def say():  # type: ignore[no-untyped-def]
            return tf.print(
                "text: of these rows only the first", most - 1, "tokens are read:", too_long
            )

        said = tf.cond(tf.size(too_long) > 0, say, tf.no_op)
        with tf.control_dependencies([said]):
            lengths = tf.minimum(lengths, most)
        # Behind the tokens that are read, end tokens: the first is the source's, the rest padding.
        source_ids = ids[:, : most - 1].to_tensor(self.end_id)
        source_ids = tf.pad(source_ids, [[0, 0], [0, 1]], constant_values=self.end_id)
        new_ids, new_lengths = self.translator.translation(
            source_ids, lengths, max_new_tokens, beams, length_penalty
        )
        new_lengths = tf.where(lengths > 1, new_lengths, 0)
        return {"text": self.tokenizer.decode(tf.RaggedTensor.from_tensor(new_ids, new_lengths))}

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, "source_ids"),
            tf.TensorSpec([None], tf.int32, "source_lengths"),
            tf.TensorSpec([None, None], tf.int32, "target_ids"),
        ],
    )
    def logits(self, source_ids, source_lengths, target_ids):  # type: ignore[no-untyped-def]
        """Scores every next token of given targets; see `EncoderDecoder.call`.

        Returns:
          {"logits": float32[B, T, V]}.
        """
        longest = tf.maximum(tf.shape(source_ids)[1], tf.shape(target_ids)[1])
        fits = tf.debugging.Assert(
            longest <= self.model.max_len,
            [f"at most max_len = {self.model.max_len} tokens a row, but given", longest],
        )
        with tf.control_dependencies([fits]):
            inputs = tf.identity(source_ids), source_lengths, target_ids
        return {"logits": self.model(inputs)}

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def tokenize(self, text):  # type: ignore[no-untyped-def]
        """string[B] → {"token_ids": int32[B, T], right-padded with 0, "lengths": int32[B]}.

        Without the end token that a source has behind it.
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


def export_translation(model: EncoderDecoder, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes `folder` as a SavedModel, whole or not at all; parents are created.

    Signatures: `serving_default`, `logits`, `tokenize`, `detokenize`: the methods of `SourceToTarget`.

    Raises:
      UserError: if there is something at `folder` already, or it cannot be written.
    """
    with hide_tensorflow_log():
        module = SourceToTarget(model, tokenizer)
    signatures: dict[str, Any] = {
        "serving_default": module.serve,
        "logits": module.logits,
        "tokenize": module.tokenize,
        "detokenize": module.detokenize,
    }
    with new_folder(folder) as unfinished, hide_tensorflow_log():
        tf.saved_model.save(module, str(unfinished), signatures)
