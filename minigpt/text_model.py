"""A model together with its tokenizer: text in, text out."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.corpus.token_store import encode_texts
from minigpt.errors import UserError
from minigpt.evaluation import Evaluation, Evaluator, score
from minigpt.generation import Decoder
from minigpt.models import GPT
from minigpt.tokenizers import Tokenizer


@dataclass(frozen=True)
class Sample:
    """A prompt and its continuation.

    Attributes:
      prompt: as given.
      text: the continuation alone: the decoding of the whole is the prompt's decoding + text.
      seed: of the draws.
      tokens: ids of the continuation.
    """

    prompt: str
    text: str
    seed: int
    tokens: list[int]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def generate(
    decoder: Decoder,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    max_new_tokens: int,
    temperature: float,
    top_k: int,
    top_p: float,
    seeds: Sequence[int],
) -> list[Sample]:
    """Continues prompts, each with its own seed; see `sampling.sample` for the settings."""
    prompt_ids = [tokenizer.encode(prompt) for prompt in prompts]
    lengths = [len(ids) for ids in prompt_ids]
    padded = np.zeros((len(prompts), max(lengths, default=0)), np.int32)
    for row, ids in zip(padded, prompt_ids, strict=True):
        row[: len(ids)] = ids
    new_ids, new_lengths = decoder.continuation(
        tf.constant(padded),
        tf.constant(lengths, tf.int32),
        tf.constant(max_new_tokens, tf.int32),
        tf.constant(temperature, tf.float32),
        tf.constant(top_k, tf.int32),
        tf.constant(top_p, tf.float32),
        tf.constant(seeds, tf.int32),
    )
    samples = []
    for prompt, ids, row, length, seed in zip(
        prompts, prompt_ids, new_ids.numpy(), new_lengths.numpy(), seeds, strict=True
    ):
        tokens = row[:length].tolist()
        samples.append(Sample(prompt, tokenizer.continuation(ids, tokens), int(seed), tokens))
    return samples


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
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        temperature: float = 1.0,
        top_k: int = 10,
        top_p: float = 1.0,
        seed: int | Sequence[int] = 0,
    ) -> list[str]:
        """Continues prompts.

        Args:
          prompts: one or more texts; "" starts a document.
          max_new_tokens: tokens to add at most; the text may end sooner.
          temperature: 0 is greedy, 1 the model's own distribution.
          top_k: draw from the k likeliest tokens; 0: no limit.
          top_p: draw from the fewest tokens with this much probability; 1: no limit.
          seed: one for all prompts, or one each.
        Returns:
          The continuations, without the prompts.
        """
        samples = self.samples(prompts, max_new_tokens, temperature, top_k, top_p, seed)
        return [sample.text for sample in samples]

    def samples(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        temperature: float = 1.0,
        top_k: int = 10,
        top_p: float = 1.0,
        seed: int | Sequence[int] = 0,
    ) -> list[Sample]:
        """The same as `generate`, with prompt, seed and token ids beside each text."""
        prompts = [prompts] if isinstance(prompts, str) else list(prompts)
        seeds = [seed] * len(prompts) if isinstance(seed, int) else list(seed)
        if len(seeds) != len(prompts):
            raise ValueError(
                f"`seed` must be one number or one a prompt. Received: {len(seeds)} seeds for "
                f"{len(prompts)} prompts"
            )
        return generate(
            self._decoder, self.tokenizer, prompts, max_new_tokens, temperature, top_k, top_p, seeds
        )

    def unknown_tokens(self, text: str) -> int:
        """How many of the text's tokens the tokenizer has never seen and reads as `[UNK]`."""
        if self.tokenizer.unknown_id is None:
            return 0
        return int((self.tokenizer.encode(text) == self.tokenizer.unknown_id).sum())

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
