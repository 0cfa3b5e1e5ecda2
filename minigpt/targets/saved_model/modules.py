"""The graphs of a SavedModel: text in, text out, in programs that do not have minigpt."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import tensorflow as tf

from minigpt.config import SamplingConfig
from minigpt.config.sampling import MAX_NEW_TOKENS
from minigpt.environment import hide_tensorflow_log
from minigpt.generation.decoding import Decoder
from minigpt.generation.sampling import SAMPLING_SPEC, SamplingSettings
from minigpt.generation.step_models import CachedGPT
from minigpt.generation.translator import Translator
from minigpt.models import GPT, EncoderDecoder
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.chat_format import ROLES
from minigpt.tokenizers.graph import graph_of


def _graph(*inputs: tf.TensorSpec) -> Any:
    """Decorates a function of tensors."""
    return tf.function(autograph=False, input_signature=list(inputs))


def _spec(name: str, dtype: Any, axes: int = 0) -> tf.TensorSpec:
    return tf.TensorSpec([None] * axes, dtype, name)


class TextModule(tf.Module):
    """A model with its tokenizer as TensorFlow functions, for `tf.saved_model.load`.

    A process that loads it has imported tensorflow and, for a byte-pair tokenizer, tensorflow_text. Its
    `functions` are the signatures; `serve` is "serving_default".
    """

    functions: ClassVar[tuple[str, ...]] = ("serve", "logits", "tokenize", "detokenize")

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        super().__init__(name="minigpt")
        # Only the weights are tracked: following all references of a Keras model takes a second.
        self.weights = [weight.value for weight in model.weights]
        object.__setattr__(self, "model", model)
        self.tokenizer = graph_of(tokenizer)

    @_graph(_spec("text", tf.string, 1))
    def tokenize(self, text):  # type: ignore[no-untyped-def]
        """string[B] → {"token_ids": int32[B, T], right-padded with 0, "lengths": int32[B]}.

        The ids do not include end tokens.
        """
        ids = self.tokenizer.encode(text)
        return {"token_ids": ids.to_tensor(), "lengths": tf.cast(ids.row_lengths(), tf.int32)}

    @_graph(_spec("token_ids", tf.int32, 2), _spec("lengths", tf.int32, 1))
    def detokenize(self, token_ids, lengths):  # type: ignore[no-untyped-def]
        """int32[B, T], int32[B] → {"text": string[B]}."""
        return {"text": self.tokenizer.decode(tf.RaggedTensor.from_tensor(token_ids, lengths))}

    def _fits(self, length):  # type: ignore[no-untyped-def]
        max_len = self.model.max_len
        problem = [f"at most max_len = {max_len} tokens per row, got", length]
        return tf.debugging.Assert(length <= max_len, problem)

    def save(self, folder: Path) -> None:
        """Writes a SavedModel into an empty folder."""
        signatures = {name: getattr(self, name) for name in self.functions}
        signatures["serving_default"] = signatures.pop("serve")
        # Searching the graph for operations with gradients of their own takes seconds.
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        with hide_tensorflow_log():
            tf.saved_model.save(self, str(folder), signatures, options)


# The arguments of `sample`.
_ALL = [
    _spec("prompt", tf.string, 1),
    _spec("max_new_tokens", tf.int32),
    *SAMPLING_SPEC,
    _spec("banned_tokens", tf.int32, 1),
    *(_spec("num_samples", tf.int32), _spec("seed", tf.int32)),
]
_SERVED = ("prompt", "max_new_tokens", "temperature", "top_k", "top_p", "seed")
_SERVE = [spec for spec in _ALL if spec.name in _SERVED]


class TextToText(TextModule):
    """A GPT with its tokenizer: `serve`, `sample`, `logits`, `tokenize` and `detokenize`.

    `serve` and `sample` accept values out of range, in the same way:
      prompt: an empty batch gives no texts. An empty prompt starts a document. If a prompt is longer than
        max_len tokens, only the newest max_len are read. NUL is an ordinary character; bytes that are not
        UTF-8 become U+FFFD.
      max_new_tokens: 0 or less gives ""; values above MAX_NEW_TOKENS (a million) are limited to it.
      temperature and the other settings of a distribution: see `SamplingSettings`.
      num_samples: 0 or less counts as 1.
      banned_tokens: ids outside the vocabulary have no effect.
    A wrong shape or dtype raises InvalidArgumentError, as does `logits` for ids that the model cannot read.
    `detokenize` ignores ids outside the vocabulary, and clips lengths to the row.
    """

    functions = (*TextModule.functions, "sample")

    def __init__(self, model: GPT, tokenizer: Tokenizer, own: Mapping[str, Any]) -> None:
        super().__init__(model, tokenizer)
        defaults = SamplingConfig(**{name: own[name] for name in _SERVED if name in own})
        self._defaults = [getattr(defaults, name, 0) for name in _SERVED[1:]]
        self._cached = CachedGPT(model)
        self.decoder = Decoder(self._cached, tokenizer.end_id, tokenizer.never_sampled_ids)

    @_graph(*_SERVE)
    def serve(self, prompt, *arguments):  # type: ignore[no-untyped-def]
        """Returns {"text": string[B]}, the continuations without the prompts; see `Decoder.generate`."""
        return {"text": self._serve(self.tokenizer.encode(prompt), *arguments)}

    def _serve(self, prompt_ids, max_new_tokens, temperature, top_k, top_p, seed):  # type: ignore[no-untyped-def]
        settings = SamplingSettings(temperature=temperature, top_k=top_k, top_p=top_p).as_tensors()
        seeds = tf.repeat(seed, prompt_ids.nrows())
        return self._drawn(prompt_ids, max_new_tokens, settings, seeds, tf.zeros([0], tf.int32))

    @_graph(_spec("prompt", tf.string, 1))
    def generate(self, prompt):  # type: ignore[no-untyped-def]
        """Returns {"text": string[B]}: `serve` with the settings of the run and the seed 0."""
        return self.serve(prompt, *self._defaults)

    @_graph(*_ALL)
    def sample(self, prompt, max_new_tokens, *others):  # type: ignore[no-untyped-def]
        """Continues prompts with all settings of the draw: see `SamplingSettings`.

        Returns:
          {"text": string[B, num_samples]}: sample i uses seed + i.
        """
        *distribution, banned_tokens, num_samples, seed = others
        num_samples = tf.maximum(num_samples, 1)
        prompt_ids = self.tokenizer.encode(prompt)
        repeated = tf.gather(prompt_ids, tf.repeat(tf.range(tf.size(prompt)), num_samples))
        seeds = tf.tile(seed + tf.range(num_samples), [tf.size(prompt)])
        settings = SamplingSettings(*distribution)
        texts = self._drawn(repeated, max_new_tokens, settings, seeds, banned_tokens)
        return {"text": tf.reshape(texts, [-1, num_samples])}

    def _drawn(self, prompt_ids, max_new_tokens, *arguments):  # type: ignore[no-untyped-def]
        """ragged int32[B, None] → string[B]; the arguments are those of `Decoder.generate`."""
        ids, lengths = self.decoder.generate(
            prompt_ids.to_tensor(),
            tf.cast(prompt_ids.row_lengths(), tf.int32),
            tf.minimum(max_new_tokens, MAX_NEW_TOKENS),
            *arguments,
        )
        new = tf.RaggedTensor.from_tensor(ids, lengths)
        return self.tokenizer.continuation(prompt_ids, new)

    @_graph(_spec("token_ids", tf.int32, 2))
    def logits(self, token_ids):  # type: ignore[no-untyped-def]
        """int32[B, T], T ≤ max_len → {"logits": float32[B, T, V], "latents": float32[B, T, D]}.

        Longer rows and ids outside the vocabulary raise InvalidArgumentError.
        """
        last_id = self.model.vocab_size - 1
        known = tf.debugging.Assert(
            tf.reduce_all((token_ids >= 0) & (token_ids <= last_id)),
            [f"token_ids: should be from 0 to {last_id}"],
        )
        with tf.control_dependencies([self._fits(tf.shape(token_ids)[1]), known]):
            token_ids = tf.identity(token_ids)
        latents, _ = self._cached.read_whole(token_ids, tf.shape(token_ids)[1])
        return {"logits": self.model.logits(latents), "latents": tf.cast(latents, tf.float32)}


class ChatToText(TextToText):
    """A GPT that was trained on dialogues: `chat`, and what `TextToText` has."""

    functions = (*TextToText.functions, "chat")

    def __init__(self, model: GPT, tokenizer: Tokenizer, own: Mapping[str, Any]) -> None:
        super().__init__(model, tokenizer, own)
        assert tokenizer.chat is not None
        self._format = tokenizer.chat

    @_graph(_spec("roles", tf.string, 1), _spec("contents", tf.string, 1), *_SERVE[1:])
    def chat(self, roles, contents, *arguments):  # type: ignore[no-untyped-def]
        """string[N], string[N], settings of `serve` → {"text": string[1]}, the answer to a dialogue.

        Only the newest max_len tokens are read. Another role than "system", "user" and "assistant", and an
        empty dialogue, raise InvalidArgumentError.
        """
        ids = self.dialogue_ids(roles, contents)
        # The other functions know no number of rows in advance.
        row = tf.RaggedTensor.from_row_lengths(
            ids, tf.tile([tf.size(ids, tf.int64)], [tf.size(roles[:1])])
        )
        return {"text": self._serve(row, *arguments)}

    def dialogue_ids(self, roles: tf.Tensor, contents: tf.Tensor) -> tf.Tensor:
        """string[N], string[N] → int32[P], the ids of `Vocabulary.encode_dialogues`."""
        chat = self._format
        before, after = (
            tf.ragged.constant([part[role] for role in ROLES], tf.int32, row_splits_dtype=tf.int64)
            for part in (chat.before, chat.after)
        )
        matches = roles[:, None] == tf.constant(ROLES)
        fits = tf.reduce_all(tf.reduce_any(matches, 1)) & (tf.size(roles) > 0)
        with tf.control_dependencies([tf.debugging.Assert(fits, ["roles:", roles])]):
            kinds = tf.argmax(matches, 1)
        texts = self.tokenizer.encode_plain(contents).with_row_splits_dtype(tf.int64)
        parts = tf.concat([tf.gather(before, kinds), texts, tf.gather(after, kinds)], 1)
        count = tf.where(roles[0] == "system", 0, len(chat.start))
        start = tf.constant(chat.start, tf.int32)[:count]
        return tf.concat([start, parts.flat_values, before[ROLES.index("assistant")]], 0)


class SourceToTarget(TextModule):
    """An encoder-decoder with its tokenizer: `serve`, `logits`, `tokenize` and `detokenize`."""

    def __init__(self, model: EncoderDecoder, tokenizer: Tokenizer) -> None:
        super().__init__(model, tokenizer)
        self.end_id = tokenizer.end_id
        self.translator = Translator(model, tokenizer)

    @_graph(
        *(_spec("text", tf.string, 1), _spec("max_new_tokens", tf.int32)),
        *(_spec("beams", tf.int32), _spec("length_penalty", tf.float32)),
    )
    def serve(self, text, max_new_tokens, beams, length_penalty):  # type: ignore[no-untyped-def]
        """Returns {"text": string[B]}, the translations; see `Translator.translate`.

        Surrounding white space is ignored; a sentence of white space gives "". If a source has more
        than max_len tokens, end token included, only the first max_len - 1 are read. `tokenize` returns the
        lengths in advance.
        """
        ids = self.tokenizer.encode(tf.strings.strip(text))
        max_len = self.model.max_len
        lengths = tf.minimum(tf.cast(ids.row_lengths(), tf.int32) + 1, max_len)
        # The first end token after a source belongs to it; the others are padding.
        source_ids = ids[:, : max_len - 1].to_tensor(self.end_id)
        source_ids = tf.pad(source_ids, [[0, 0], [0, 1]], constant_values=self.end_id)
        new_ids, new_lengths = self.translator.translate(
            source_ids, lengths, max_new_tokens, beams, length_penalty
        )
        new_lengths = tf.where(lengths > 1, new_lengths, 0)
        return {"text": self.tokenizer.decode(tf.RaggedTensor.from_tensor(new_ids, new_lengths))}

    @_graph(
        _spec("source_ids", tf.int32, 2),
        _spec("source_lengths", tf.int32, 1),
        _spec("target_ids", tf.int32, 2),
    )
    def logits(self, source_ids, source_lengths, target_ids):  # type: ignore[no-untyped-def]
        """Returns {"logits": float32[B, T, V]}, the scores of every next token of the given targets."""
        longest = tf.maximum(tf.shape(source_ids)[1], tf.shape(target_ids)[1])
        with tf.control_dependencies([self._fits(longest)]):
            inputs = tf.identity(source_ids), source_lengths, target_ids
        return {"logits": self.model(inputs)}


def build_text_module(
    model: GPT | EncoderDecoder, tokenizer: Tokenizer, own: Mapping[str, Any] = MappingProxyType({})
) -> TextModule:
    """Returns the module whose methods are the signatures of a SavedModel; `own` as `own_settings`."""
    with hide_tensorflow_log():
        if isinstance(model, EncoderDecoder):
            return SourceToTarget(model, tokenizer)
        return (ChatToText if tokenizer.chat else TextToText)(model, tokenizer, own)
