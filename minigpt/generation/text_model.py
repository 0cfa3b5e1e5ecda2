"""TextModel: a language model together with its tokenizer."""

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.config import sampling_config
from minigpt.corpus.token_ids import encode_texts
from minigpt.errors import UserError, as_integer
from minigpt.evaluation import Evaluation, score
from minigpt.evaluation.text import Evaluator
from minigpt.generation.arguments import as_token_ids, seeds_of
from minigpt.generation.decoders import build_decoder
from minigpt.generation.decoding import Decoder
from minigpt.generation.prompts import as_texts, check_prompt, describe, unknown_tokens_message
from minigpt.generation.sample import Sample
from minigpt.generation.samples import generate, stream
from minigpt.models import GPT
from minigpt.tokenizers import Tokenizer


class TextModel:
    """A trained model with its tokenizer.

    Args:
      model: the GPT.
      tokenizer: the tokenizer it was trained with.
    """

    def __init__(self, model: GPT, tokenizer: Tokenizer) -> None:
        self.model = model
        self.tokenizer = tokenizer

    def __repr__(self) -> str:
        return f"TextModel({describe(self.model, self.tokenizer)})"

    @cached_property
    def _decoder(self) -> Decoder:
        return build_decoder(self.model, self.tokenizer)

    @property
    def max_len(self) -> int:
        """The context, in tokens."""
        return self.model.max_len

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | Sequence[int] = 0,
        num_samples: int = 1,
        **settings: Any,
    ) -> list[str]:
        """Continues prompts.

        Args:
          prompts: one or more texts; "" starts a document.
          max_new_tokens: maximum number of tokens to add; the text may end sooner.
          seed, num_samples, **settings: see `samples`.
        Returns:
          The continuations, without the prompts.
        """
        samples = self._generate(prompts, max_new_tokens, seed, num_samples, **settings)
        return [sample.text for sample in samples]

    def samples(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | Sequence[int] = 0,
        num_samples: int = 1,
        **settings: Any,
    ) -> list[Sample]:
        """Does the same as `generate`, but also returns the prompt, seed and token ids of each text.

        Args:
          prompts: one or more texts; "" starts a document.
          max_new_tokens: maximum number of tokens to add; the text may end sooner.
          seed: one for all prompts, or one per prompt.
          num_samples: samples per prompt; sample i uses seed + i.
          **settings: temperature, top_k (10 by default), top_p, min_p, repetition_penalty, beams,
            length_penalty, stop and banned_tokens, as in `[sampling]` of a configuration.
        Raises:
          UserError: a setting or a prompt cannot be used, or one sample does not fit into memory.
          TypeError: `prompts` contains something other than strings, or `seed` or
            `num_samples` other than integers.
          ValueError: the number of seeds is neither 1 nor the number of prompts.
        """
        return list(self._generate(prompts, max_new_tokens, seed, num_samples, **settings))

    def iter_samples(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | Sequence[int] = 0,
        num_samples: int = 1,
        **settings: Any,
    ) -> Iterator[Sample]:
        """Yields what `samples` returns, batch by batch, for more samples than fit into memory.

        Arguments and exceptions are those of `samples`.
        """
        return self._generate(prompts, max_new_tokens, seed, num_samples, **settings)

    def _generate(
        self,
        prompts: str | Sequence[str],
        max_new_tokens: int,
        seed: int | Sequence[int],
        num_samples: int,
        **settings: Any,
    ) -> Iterator[Sample]:
        prompts = as_texts("prompts", prompts)
        seeds = seeds_of(seed, len(prompts))
        num_samples = as_integer("num_samples", num_samples)
        sampling = sampling_config(max_new_tokens=max_new_tokens, **settings)
        self._warn_of_unknown(prompts, stacklevel=4)
        return generate(self._decoder, self.tokenizer, prompts, seeds, sampling, num_samples)

    def stream(
        self, prompt: str = "", max_new_tokens: int = 40, *, seed: int = 0, **settings: Any
    ) -> Iterator[str]:
        """Yields the text that `generate` returns for one prompt, in pieces as it is generated.

        Args:
          prompt, max_new_tokens, seed, **settings: as for `samples`.
        Raises:
          UserError: a setting or the prompt cannot be used; several beams cannot be streamed.
          TypeError: `prompt` is not a string, or `seed` not an integer.
        """
        (seed,) = seeds_of(seed, 1)
        sampling = sampling_config(max_new_tokens=max_new_tokens, **settings)
        self._warn_of_unknown([prompt], stacklevel=3)
        return stream(self._decoder, self.tokenizer, prompt, seed, sampling)

    def unknown_tokens(self, text: str) -> int:
        """Returns the number of words or characters of a text that the vocabulary does not contain.

        The tokenizer reads them as `[UNK]`, or a character as the bytes of its UTF-8.

        Raises:
          UserError: the text is not valid Unicode.
          TypeError: it is not a string.
        """
        check_prompt(text, "text")
        return self.tokenizer.count_unknown(text)

    def _warn_of_unknown(self, prompts: Sequence[str], stacklevel: int) -> None:
        for prompt in prompts:
            check_prompt(prompt)
            if unknown := self.tokenizer.count_unknown(prompt):
                message = unknown_tokens_message(f"prompt {prompt!r}", unknown, self.tokenizer)
                warnings.warn(message, stacklevel=stacklevel)

    def logits(self, token_ids: Any) -> np.ndarray:
        """Scores every next token.

        Args:
          token_ids: int[B, T], T ≤ max_len.
        Returns:
          float32[B, T, V]: row t scores the token at t + 1.
        Raises:
          TypeError: the ids are not integers.
          ValueError: their shape is not [B, T] with T ≤ max_len, or an id is outside the vocabulary.
        """
        return self.model(self._token_ids(token_ids)).numpy()

    def latents(self, token_ids: Any) -> np.ndarray:
        """Computes the latents: the input of the head.

        Args:
          token_ids: int[B, T], T ≤ max_len.
        Returns:
          float32[B, T, D].
        Raises:
          TypeError, ValueError: as for `logits`.
        """
        return tf.cast(self.model.latents(self._token_ids(token_ids)), tf.float32).numpy()

    def _token_ids(self, token_ids: Any) -> np.ndarray:
        return as_token_ids(token_ids, self.model.max_len, self.model.vocab_size)

    def evaluate(self, texts: str | Sequence[str]) -> Evaluation:
        """Scores the model on texts, each one document.

        Raises:
          UserError: all texts are empty, or one is not valid Unicode.
          TypeError: `texts` contains something other than strings.
        """
        documents = as_texts("texts", texts)
        if not any(documents):
            raise UserError("texts: empty; expected at least one character")
        for document in documents:
            check_prompt(document, "texts")
        part = encode_texts(documents, self.tokenizer)
        loss = Evaluator(self.model).loss(part.ids)
        return score(loss, part, self.tokenizer.lossless)
