"""A SavedModel that takes a string and returns a string, with nothing of minigpt needed to run it."""

from pathlib import Path
from typing import Any

import tensorflow as tf

from minigpt.config import MAX_NEW_TOKENS
from minigpt.environment import hide_tensorflow_log
from minigpt.generation import SETTINGS_SPEC, Decoder, Settings, cut_at_stop
from minigpt.inference.samples import STOP_EVERY
from minigpt.models import GPT
from minigpt.storage.folder import new_folder
from minigpt.tokenizers import Tokenizer


class TextToText(tf.Module):
    """Tokenizer, cached decoding and detokenizer as TensorFlow functions.

    Loads with `tf.saved_model.load` where tensorflow and, for a byte-pair tokenizer, tensorflow_text
    are imported.

    Text and numbers out of range are answered, the same by `serving_default` and `generate`:
      an empty batch: no texts. An empty prompt: a document's beginning.
      a prompt of any length: its newest max_len tokens count. NUL is a character like others; bytes
        that are no UTF-8 are read as U+FFFD.
      max_new_tokens of 0 or less: ""; above MAX_NEW_TOKENS, a million: that many.
      temperature, top_p of 0 or less, or nan: greedy. top_p above 1: no limit.
      top_k of 0 or less, or above V: no limit. min_p of 0 or less: no limit; of 1 or more, or nan: greedy.
      repetition_penalty of 0 or less, or nan: none. length_penalty nan: 0.
      beams, num_samples of 0 or less: 1. An empty stop string, banned tokens outside the vocabulary: none.
    What has the wrong shape or dtype is an InvalidArgumentError, as are `logits` of what it cannot read;
    `detokenize` leaves out ids outside the vocabulary and takes a row's length as it can be.
    """

    def __init__(self, model: GPT, tokenizer: Tokenizer) -> None:
        super().__init__(name="minigpt")
        self.model = model
        self.tokenizer = tokenizer.graph()
        self.decoder = Decoder(model, tokenizer.end_id, tokenizer.undrawable_ids)

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None], tf.string, "prompt"),
            tf.TensorSpec([], tf.int32, "max_new_tokens"),
            tf.TensorSpec([], tf.float32, "temperature"),
            tf.TensorSpec([], tf.int32, "top_k"),
            tf.TensorSpec([], tf.float32, "top_p"),
            tf.TensorSpec([], tf.int32, "seed"),
        ],
    )
    def serve(self, prompt, max_new_tokens, temperature, top_k, top_p, seed):  # type: ignore[no-untyped-def]
        """Continues prompts, each as it would be alone; see `Decoder.continuation`.

        Returns:
          {"text": string[B]}, the continuations alone.
        """
        max_new_tokens = tf.minimum(max_new_tokens, MAX_NEW_TOKENS)
        prompt_ids = self.tokenizer.encode(prompt)
        lengths = tf.cast(prompt_ids.row_lengths(), tf.int32)
        new_ids, new_lengths = self.decoder.continuation(
            prompt_ids.to_tensor(),
            lengths,
            max_new_tokens,
            Settings(temperature, top_k, top_p).as_tensors(),
            tf.repeat(seed, tf.size(prompt)),
            tf.zeros([0], tf.int32),
        )
        new_ids = tf.RaggedTensor.from_tensor(new_ids, new_lengths)
        return {"text": self.tokenizer.continuation(prompt_ids, new_ids)}

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None], tf.string, "prompt"),
            tf.TensorSpec([], tf.int32, "max_new_tokens"),
            *SETTINGS_SPEC,
            tf.TensorSpec([], tf.int32, "beams"),
            tf.TensorSpec([], tf.float32, "length_penalty"),
            tf.TensorSpec([None], tf.string, "stop"),
            tf.TensorSpec([None], tf.int32, "banned_tokens"),
            tf.TensorSpec([], tf.int32, "num_samples"),
            tf.TensorSpec([], tf.int32, "seed"),
        ],
    )
    def generate(  # type: ignore[no-untyped-def]
        self,
        prompt,
        max_new_tokens,
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
        beams,
        length_penalty,
        stop,
        banned_tokens,
        num_samples,
        seed,
    ):
        """`serve` with every option; see `Settings`, `beam_search` and `cut_at_stop`.

        With beams > 1 nothing is drawn: of temperature, top_k, top_p, min_p and seed none plays a part.

        Returns:
          {"text": string[B, num_samples]}: sample i uses seed + i. With beams > 1 the best ones, at
          most as many as there are beams.
        """
        max_new_tokens = tf.minimum(max_new_tokens, MAX_NEW_TOKENS)
        prompt_ids = self.tokenizer.encode(prompt)
        beams, num_samples = tf.maximum(beams, 1), tf.maximum(num_samples, 1)
        length_penalty = tf.where(tf.math.is_nan(length_penalty), 0.0, length_penalty)
        settings = Settings(temperature, top_k, top_p, min_p, repetition_penalty)

        def searched():  # type: ignore[no-untyped-def]
            count = tf.minimum(num_samples, beams)
            new_ids, new_lengths = self.decoder.search(
                prompt_ids.to_tensor(),
                tf.cast(prompt_ids.row_lengths(), tf.int32),
                max_new_tokens,
                beams,
                length_penalty,
                repetition_penalty,
                banned_tokens,
            )
            new_ids = tf.reshape(new_ids[:, :count], [-1, tf.shape(new_ids)[2]])
            return new_ids, tf.reshape(new_lengths[:, :count], [-1]), count

        def drawn():  # type: ignore[no-untyped-def]
            new_ids, new_lengths = self._drawn(
                self._repeat(prompt_ids, num_samples),
                max_new_tokens,
                settings,
                tf.tile(seed + tf.range(num_samples), [tf.size(prompt)]),
                banned_tokens,
                stop,
            )
            return new_ids, new_lengths, num_samples

        new_ids, new_lengths, count = tf.cond(beams > 1, searched, drawn)
        texts = self.tokenizer.continuation(
            self._repeat(prompt_ids, count),
            tf.RaggedTensor.from_tensor(new_ids, new_lengths),
        )
        return {"text": tf.reshape(cut_at_stop(texts, stop)[0], [-1, count])}

    def _repeat(self, prompt_ids, count):  # type: ignore[no-untyped-def]
        return tf.gather(prompt_ids, tf.repeat(tf.range(prompt_ids.nrows(tf.int32)), count))

    def _drawn(self, prompt_ids, max_new_tokens, settings, seeds, banned_tokens, stop):  # type: ignore[no-untyped-def]
        """`Decoder.continuation`, or less where all rows have come to a stop string."""
        stride = tf.where(tf.size(stop) > 0, STOP_EVERY, max_new_tokens)

        def go_on(progress, stopped):  # type: ignore[no-untyped-def]
            unfinished = ~tf.reduce_all(stopped | progress.finished)
            return unfinished & (progress.step < max_new_tokens)

        def write_on(progress, stopped):  # type: ignore[no-untyped-def]
            progress = self.decoder.proceed(progress, stride, settings, seeds, banned_tokens)
            new_ids = tf.RaggedTensor.from_tensor(*self.decoder.written(progress))
            return progress, cut_at_stop(self.tokenizer.continuation(prompt_ids, new_ids), stop)[1]

        lengths = tf.cast(prompt_ids.row_lengths(), tf.int32)
        progress = self.decoder.begin(prompt_ids.to_tensor(), lengths, max_new_tokens)
        progress, _ = tf.while_loop(go_on, write_on, (progress, tf.zeros_like(seeds, tf.bool)))
        return self.decoder.written(progress)

    @tf.function(
        autograph=False, input_signature=[tf.TensorSpec([None, None], tf.int32, "token_ids")]
    )
    def logits(self, token_ids):  # type: ignore[no-untyped-def]
        """int32[B, T], T ≤ max_len → {"logits": float32[B, T, V], "latents": float32[B, T, D]}.

        More tokens a row, or an id outside the vocabulary, are an InvalidArgumentError.
        """
        length, most = tf.shape(token_ids)[1], self.model.vocab_size - 1
        fits = tf.debugging.Assert(
            length <= self.model.max_len,
            [f"token_ids: at most max_len = {self.model.max_len} tokens a row, but given", length],
        )
        known = tf.debugging.Assert(
            tf.reduce_all((token_ids >= 0) & (token_ids <= most)),
            [f"token_ids: should be from 0 to {most}"],
        )
        with tf.control_dependencies([fits, known]):
            latents = self.model.latents(tf.identity(token_ids))
        return {"logits": self.model.logits(latents), "latents": tf.cast(latents, tf.float32)}

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def tokenize(self, text):  # type: ignore[no-untyped-def]
        """string[B] → {"token_ids": int32[B, T], right-padded with 0, "lengths": int32[B]}."""
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


def export_saved_model(model: GPT, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes `folder` as a SavedModel, whole or not at all; parents are created.

    The signatures `serving_default`, `generate`, `logits`, `tokenize` and `detokenize` are the methods of
    `TextToText`.

    Raises:
      UserError: if there is something at `folder` already, or it cannot be written.
    """
    with hide_tensorflow_log():
        module = TextToText(model, tokenizer)
    signatures: dict[str, Any] = {
        "serving_default": module.serve,
        "generate": module.generate,
        "logits": module.logits,
        "tokenize": module.tokenize,
        "detokenize": module.detokenize,
    }
    with new_folder(folder) as unfinished, hide_tensorflow_log():
        tf.saved_model.save(module, str(unfinished), signatures)
