"""A model together with its tokenizer: text in, text out."""

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
import tensorflow as tf

from minigpt.config import SamplingConfig, sampling_config
from minigpt.corpus.token_ids import encode_texts
from minigpt.errors import UserError
from minigpt.evaluation import Evaluation, score
from minigpt.evaluation.text import Evaluator
from minigpt.generation import Decoder
from minigpt.inference.prompts import check_prompt, unknown_tokens_message
from minigpt.inference.samples import Sample, generate, stream
from minigpt.models import GPT
from minigpt.tokenizers import Tokenizer


class TextModel:
    """A trained model with its tokenizer.

    Args:
      model: the GPT.
      tokenizer: the one it was trained with.
    """

    def __init__(self, model: GPT, tokenizer: Tokenizer) -> None:
        self.model = model
        self.tokenizer = tokenizer

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self.model, self.tokenizer.end_id, self.tokenizer.undrawable_ids)

    def generate(
        self, prompts: str | Sequence[str] = "", max_new_tokens: int = 40, **settings: Any
    ) -> list[str]:
        """Continues prompts.

        Args:
          prompts: one or more texts; "" starts a document.
          max_new_tokens: tokens to add at most; the text may end sooner.
          **settings: see `samples`.
        Returns:
          The continuations, without the prompts.
        """
        return [sample.text for sample in self.samples(prompts, max_new_tokens, **settings)]

    def samples(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | Sequence[int] = 0,
        num_samples: int = 1,
        **settings: Any,
    ) -> list[Sample]:
        """The same as `generate`, with prompt, seed and token ids beside each text.

        Args:
          seed: one for all prompts, or one each.
          num_samples: of each prompt; sample i uses seed + i.
          **settings: temperature, top_k (10 if not given), top_p, min_p, repetition_penalty, beams,
            length_penalty, stop and banned_tokens, as in a configuration's `[sampling]`.
        Raises:
          UserError: a setting cannot be used.
        """
        prompts = [prompts] if isinstance(prompts, str) else list(prompts)
        seeds = [seed] * len(prompts) if isinstance(seed, SupportsIndex) else list(seed)
        if len(seeds) != len(prompts):
            raise ValueError(
                f"`seed` must be one number or one a prompt. Received: {len(seeds)} seeds for "
                f"{len(prompts)} prompts"
            )
        sampling = sampling_settings(max_new_tokens=max_new_tokens, **settings)
        self._warn_of_unknown(prompts)
        return generate(self._decoder, self.tokenizer, prompts, seeds, sampling, num_samples)

    def stream(
        self, prompt: str = "", max_new_tokens: int = 40, *, seed: int = 0, **settings: Any
    ) -> Iterator[str]:
        """What `generate` returns for one prompt, piece by piece as it is made.

        Raises:
          UserError: a setting cannot be used; beams cannot.
        """
        sampling = sampling_settings(max_new_tokens=max_new_tokens, **settings)
        self._warn_of_unknown([prompt])
        return stream(self._decoder, self.tokenizer, prompt, seed, sampling)

    def unknown_tokens(self, text: str) -> int:
        """How many of the text's tokens the tokenizer has never seen and reads as `[UNK]`.

        Raises:
          UserError: the text is not valid Unicode.
        """
        check_prompt(text)
        return self.tokenizer.count_unknown(text)

    def _warn_of_unknown(self, prompts: Sequence[str]) -> None:
        for prompt in prompts:
            if unknown := self.unknown_tokens(prompt):
                warnings.warn(unknown_tokens_message(f"prompt {prompt!r}", unknown), stacklevel=3)

    def logits(self, token_ids: Any) -> np.ndarray:
        """int[B, T] → float32[B, T, V]: row t scores the token at t + 1. T ≤ max_len."""
        return self.model(np.asarray(token_ids, np.int32)).numpy()

    def latents(self, token_ids: Any) -> np.ndarray:
        """int[B, T] → float32[B, T, D]: the last block's output, what goes into the head."""
        return tf.cast(self.model.latents(np.asarray(token_ids, np.int32)), tf.float32).numpy()

    def evaluate(self, texts: str | Sequence[str]) -> Evaluation:
        """Scores the model on texts, each a document.

        Raises:
          UserError: if there is no text.
        """
        documents = [texts] if isinstance(texts, str) else list(texts)
        if not any(documents):
            raise UserError("texts: empty; should hold at least one character")
        part = encode_texts(documents, self.tokenizer)
        loss = Evaluator(self.model).loss(part.ids)
        return score(loss, part, self.tokenizer.lossless)


def sampling_settings(**settings: Any) -> SamplingConfig:
    """Settings of `[sampling]`, checked as those of a file are.

    Raises:
      UserError: with every problem found.
    """
    return sampling_config(**settings)
