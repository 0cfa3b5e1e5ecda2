"""Sampler: prompts in, continuations out, complete or as a stream."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.config.sampling import DISTRIBUTION, TextSettings
from minigpt.errors import UserError
from minigpt.generation.base_models import Prompt, Sample
from minigpt.generation.controls import Controls
from minigpt.generation.decoding import Decoder
from minigpt.generation.decoding_loop import DecodeState, padded
from minigpt.generation.sampling import SamplingSettings
from minigpt.models.memory_estimate import machine_bytes
from minigpt.tokenizers.vocabulary import ContinuationText, Vocabulary

# The share of the machine's memory that one batch may use.
MEMORY_SHARE = 0.25
# New tokens between two checks for stop strings. Tokens after a stop string are discarded.
STOP_CHECK_EVERY = 8


# A prompt, and the seed of its continuation.
_Row = tuple[Prompt, int]


class Sampler:
    """Continues prompts: complete, or in pieces as they are generated.

    Args:
      sampling: the settings; `prompts`, `seed` and `print_every` have no effect.
      controls: what changes the logits at each step.
    """

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: Vocabulary,
        sampling: TextSettings,
        controls: Controls | None = None,
    ) -> None:
        self.decoder = decoder
        self.controls = controls
        self.tokenizer = tokenizer
        self.sampling = sampling
        settings = {setting.name: getattr(sampling, setting.name) for setting in DISTRIBUTION}
        self.settings = SamplingSettings(**settings).as_tensors()
        self.banned = tf.constant(sampling.banned_tokens, tf.int32)

    def samples(
        self, prompts: Sequence[Prompt], seeds: Sequence[int], number: int = 1
    ) -> Iterator[Sample]:
        """Continues prompts, in batches that fit into memory.

        Sample i of a prompt has its seed + i.

        Returns:
          The first prompt's samples, then the second one's, and so on.
        Raises:
          UserError: one sample does not fit into memory.
        """
        batch_rows = self._rows_in_memory(max((len(p.ids) for p in prompts), default=0))
        pairs = zip(prompts, seeds, strict=True)
        rows = ((prompt, int(seed) + i) for prompt, seed in pairs for i in range(number))
        return self._in_batches(rows, batch_rows)

    def pieces(self, prompt: Prompt, seed: int) -> Iterator[str]:
        """Continues one prompt, in constant time per token; a character is yielded when it is complete.

        The possible start of a stop string is yielded when it is clear that it is not one.
        """
        text = ContinuationText(self.tokenizer, prompt.ids, self.sampling.stop)
        return text.written(self._tokens(prompt.ids, seed))

    def _rows_in_memory(self, prompt_length: int) -> int:
        """Returns the number of rows of a batch; a `UserError` if a single one does not fit into memory."""
        row_bytes = self.decoder.model.row_bytes(prompt_length + self.sampling.max_new_tokens)
        if row_bytes > machine_bytes():
            raise self._memory_error(f"{row_bytes / 1e9:,.1f} GB")
        return max(1, int(MEMORY_SHARE * machine_bytes()) // row_bytes)

    def _in_batches(self, rows: Iterator[_Row], batch_rows: int) -> Iterator[Sample]:
        while batch := list(itertools.islice(rows, batch_rows)):
            try:
                continuations = self._draw_batch(batch)
            except (MemoryError, tf.errors.ResourceExhaustedError):
                raise self._memory_error("more memory") from None
            for (prompt, seed), tokens in zip(batch, continuations, strict=True):
                yield self._sample(prompt, seed, tokens)

    def _tokens(self, prompt_ids: np.ndarray, seed: int) -> Iterator[list[int]]:
        """Yields the new tokens, one at a time."""
        state = self.decoder.prefill(*padded([prompt_ids]), self.sampling.max_new_tokens)
        start, extend = int(state.lengths[0]), self._extension([prompt_ids], self.decoder.extend)
        arguments = self.settings, tf.constant([seed], tf.int32), self.banned
        for step in range(self.sampling.max_new_tokens):
            state = extend(state, 1, *arguments)
            token = int(state.token_ids[0, start + step])
            if token == self.decoder.end_id:
                return
            yield [token]

    def _draw_batch(self, rows: Sequence[_Row]) -> list[list[int]]:
        """Returns the new ids of every row."""
        decoder, sampling = self.decoder, self.sampling
        prompt_ids = [prompt.ids for prompt, _ in rows]
        state = decoder.prefill(*padded(prompt_ids), sampling.max_new_tokens)
        longest = max(map(len, prompt_ids)) + sampling.max_new_tokens
        extend = decoder.extend_in_context if longest <= decoder.model.max_len else decoder.extend
        extend = self._extension(prompt_ids, extend)
        seeds = tf.constant([seed for _, seed in rows], tf.int32)
        arguments = self.settings, seeds, self.banned
        if sampling.stop:
            texts = [ContinuationText(self.tokenizer, ids, sampling.stop) for ids in prompt_ids]
            ended = np.zeros(len(rows), bool)
            while state.step < state.limit and not ended.all():
                state = extend(state, STOP_CHECK_EVERY, *arguments)
                for text, tokens in zip(texts, _new_ids(state), strict=True):
                    text.push(tokens[len(text.tokens) :])
                ended = state.finished.numpy() | [text.stopped for text in texts]
        else:
            state = extend(state, sampling.max_new_tokens, *arguments)
        return _new_ids(state)

    def _extension(
        self, prompt_ids: Sequence[np.ndarray], extend: Callable[..., DecodeState]
    ) -> Callable[..., DecodeState]:
        """Returns `extend` of the decoder; with controls, one that has them change the logits."""
        if self.controls is None:
            return extend
        processors = [self.controls.start(self.tokenizer, ids) for ids in prompt_ids]

        def extend_in_steps(
            state: DecodeState, count: Any, settings: Any, seeds: Any, banned: Any
        ) -> DecodeState:
            for _ in range(min(int(count), int(state.limit - state.step))):
                if not (unfinished := np.flatnonzero(~state.finished.numpy()).tolist()):
                    break
                logits, caches = self.decoder.score(state, settings, banned)
                changed, new = np.array(logits), _new_ids(state)
                for row in unfinished:
                    ids = np.array([*prompt_ids[row], *new[row]], np.int32)
                    changed[row] = processors[row](ids, changed[row])
                state = self.decoder.add_drawn(state, changed, caches, settings, seeds)
            return state

        return extend_in_steps

    def _sample(self, prompt: Prompt, seed: int, tokens: list[int]) -> Sample:
        if not self.sampling.stop:
            text = self.tokenizer.continuation(prompt.ids, tokens)
            return Sample(prompt.text, text, seed, tokens)
        cut = ContinuationText(self.tokenizer, prompt.ids, self.sampling.stop)
        text = cut.push(tokens) + cut.finish()
        return Sample(prompt.text, text, seed, cut.tokens)

    def _memory_error(self, needed: str) -> UserError:
        return UserError(
            f"sampling.max_new_tokens = {self.sampling.max_new_tokens}: one sample needs {needed}; "
            f"this machine has {machine_bytes() / 1e9:,.1f} GB"
        )


def _new_ids(state: DecodeState) -> list[list[int]]:
    """Returns the new ids of every row, without the end token.

    Uses NumPy: a dozen eager operations of TensorFlow take as long as two tokens.
    """
    rows = state.token_ids.numpy(), state.lengths.numpy(), state.new_lengths.numpy()
    return [ids[start : start + count].tolist() for ids, start, count in zip(*rows, strict=True)]
