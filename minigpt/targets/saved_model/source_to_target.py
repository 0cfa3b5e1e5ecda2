"""SourceToTarget: a graph that maps sentences to translations; running it does not need minigpt."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from minigpt.generation.translation import Translator
from minigpt.models import EncoderDecoder
from minigpt.targets.saved_model.text_module import TextModule
from minigpt.tokenizers import Tokenizer


class SourceToTarget(TextModule):
    """An encoder-decoder with its tokenizer: `serve`, `logits`, `tokenize` and `detokenize`."""

    def __init__(self, model: EncoderDecoder, tokenizer: Tokenizer) -> None:
        super().__init__(model, tokenizer)
        self.end_id = tokenizer.end_id
        self.translator = Translator(
            model, tokenizer.end_id, tokenizer.never_sampled_ids, tokenizer.start_id
        )

    def signatures(self) -> Mapping[str, Any]:
        return {"serving_default": self.serve, "logits": self.logits, **super().signatures()}

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
        """Translates sentences, each independently of the others. See `Translator.translate`.

        Surrounding white space is ignored; a sentence of white space gives "". If a source has more
        than max_len tokens, end token included, only the first max_len - 1 are read, and a line on standard
        error says so. `tokenize` returns the lengths in advance.

        Returns:
          {"text": string[B]}, the translations.
        """
        ids = self.tokenizer.encode(tf.strings.strip(text))
        lengths = tf.cast(ids.row_lengths(), tf.int32) + 1
        max_len = self.model.max_len
        too_long = tf.squeeze(tf.where(lengths > max_len), 1)

        def warn():  # type: ignore[no-untyped-def]
            return tf.print(
                "text: in these rows, only the first", max_len - 1, "tokens are read:", too_long
            )

        warned = tf.cond(tf.size(too_long) > 0, warn, tf.no_op)
        with tf.control_dependencies([warned]):
            lengths = tf.minimum(lengths, max_len)
        # The first end token after a source belongs to it; the others are padding.
        source_ids = ids[:, : max_len - 1].to_tensor(self.end_id)
        source_ids = tf.pad(source_ids, [[0, 0], [0, 1]], constant_values=self.end_id)
        new_ids, new_lengths = self.translator.translate(
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
        """Scores every next token of the given targets; see `EncoderDecoder.call`.

        Returns:
          {"logits": float32[B, T, V]}.
        """
        longest = tf.maximum(tf.shape(source_ids)[1], tf.shape(target_ids)[1])
        fits = tf.debugging.Assert(
            longest <= self.model.max_len,
            [f"at most max_len = {self.model.max_len} tokens per row, got", longest],
        )
        with tf.control_dependencies([fits]):
            inputs = tf.identity(source_ids), source_lengths, target_ids
        return {"logits": self.model(inputs)}
