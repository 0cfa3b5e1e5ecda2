"""Samples: prompts in, continuations out, complete or as a stream."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from minigpt.config import SamplingConfig
from minigpt.config.sampling import DISTRIBUTION
from minigpt.errors import ArgumentProblem, UserError, gathering
from minigpt.generation.base import Sample
from minigpt.generation.decoding import STOP_CHECK_EVERY, Decoder
from minigpt.generation.loop import DecodeState
from minigpt.generation.prompts import banned_token_problems, check_prompt, check_seeds
from minigpt.generation.sampling import SamplingSettings
from minigpt.models.memory_estimate import machine_bytes
from minigpt.tokenizers.continuation import ContinuationText
from minigpt.tokenizers.vocabulary import Vocabulary

# The share of the machine's memory that one batch may use.
MEMORY_SHARE = 0.25


class _Row(NamedTuple):
    prompt: str
    prompt_ids: np.ndarray
    seed: int


def generate(
    decoder: Decoder,
    tokenizer: Vocabulary,
    prompts: Sequence[str],
    seeds: Sequence[int],
    sampling: SamplingConfig,
    num_samples: int = 1,
    prompt_ids: Sequence[np.ndarray] | None = None,
) -> Iterator[Sample]:
    """Continues prompts, each with its own seed, in batches that fit into memory.

    Args:
      decoder: the model's decoder.
      tokenizer: the model's tokenizer.
      prompts: texts to continue.
      seeds: one per prompt.
      sampling: the settings; `prompts`, `seed` and `print_every` have no effect.
      num_samples: samples per prompt; sample i uses seed + i. With beams, the best num_samples.
      prompt_ids: int32[P] of each prompt; by default, the prompts are encoded.
    Yields:
      The first prompt's samples, then the second one's, and so on.
    Raises:
      UserError: a banned token is outside the vocabulary, num_samples is less than 1 or larger than the
        number of beams, or one sample does not fit into memory.
    """
    _check(sampling, tokenizer, prompts, seeds, num_samples)
    if prompt_ids is None:
        prompt_ids = [tokenizer.encode(prompt) for prompt in prompts]
    batch_rows = _rows_in_memory(decoder, max(map(len, prompt_ids), default=0), sampling)
    inputs = zip(prompts, prompt_ids, seeds, strict=True)
    rows = (_Row(prompt, ids, int(seed)) for prompt, ids, seed in inputs)
    if sampling.beams == 1:
        rows = (row._replace(seed=row.seed + i) for row in rows for i in range(num_samples))
    return _continue_rows(decoder, tokenizer, rows, sampling, num_samples, batch_rows)


def stream(
    decoder: Decoder, tokenizer: Vocabulary, prompt: str, seed: int, sampling: SamplingConfig
) -> Iterator[str]:
    """Yields the text of `generate` in pieces as it is generated, in constant time per token.

    A character is yielded when it is complete. The possible start of a stop string is yielded when it is
    clear that it is not one.

    Raises:
      UserError: a banned token is outside the vocabulary, or there are several beams.
    """
    _check(sampling, tokenizer, [prompt], [seed], 1)
    if sampling.beams > 1:
        problem = "cannot be streamed: the best text is known only at the end"
        raise UserError(ArgumentProblem("beams", sampling.beams, problem))
    prompt_ids = tokenizer.encode(prompt)
    text = ContinuationText(tokenizer, prompt_ids, sampling.stop)

    def pieces() -> Iterator[str]:
        state = decoder.prefill(*_padded([prompt_ids]), sampling.max_new_tokens)
        start = int(state.lengths[0])
        arguments = _settings(sampling), tf.constant([seed], tf.int32), _banned(sampling)
        for step in range(sampling.max_new_tokens):
            state = decoder.extend(state, 1, *arguments)
            token = int(state.token_ids[0, start + step])
            if token == decoder.end_id:
                break
            if ready := text.push([token]):
                yield ready
            if text.stopped:
                return
        if held := text.finish():
            yield held

    return pieces()


def _continue_rows(
    decoder: Decoder,
    tokenizer: Vocabulary,
    rows: Iterator[_Row],
    sampling: SamplingConfig,
    num_samples: int,
    batch_rows: int,
) -> Iterator[Sample]:
    while batch := list(itertools.islice(rows, batch_rows)):
        with _memory_errors(sampling):
            if sampling.beams > 1:
                continuations = _search_batch(decoder, batch, sampling)
            else:
                new_ids = _draw_batch(decoder, tokenizer, batch, sampling)
                continuations = [[tokens] for tokens in new_ids]
        for row, best in zip(batch, continuations, strict=True):
            for tokens in best[:num_samples]:
                yield _sample(tokenizer, row, tokens, sampling.stop)


def _draw_batch(
    decoder: Decoder, tokenizer: Vocabulary, rows: Sequence[_Row], sampling: SamplingConfig
) -> list[list[int]]:
    """Returns the new ids of every row."""
    prompt_ids = [row.prompt_ids for row in rows]
    state = decoder.prefill(*_padded(prompt_ids), sampling.max_new_tokens)
    longest = max(map(len, prompt_ids)) + sampling.max_new_tokens
    extend = decoder.extend_in_context if longest <= decoder.model.max_len else decoder.extend
    seeds = tf.constant([row.seed for row in rows], tf.int32)
    arguments = _settings(sampling), seeds, _banned(sampling)
    if not sampling.stop:
        return _new_ids(extend(state, sampling.max_new_tokens, *arguments))
    texts = [ContinuationText(tokenizer, ids, sampling.stop) for ids in prompt_ids]

    def is_stopped(state: DecodeState) -> tf.Tensor:
        for text, tokens in zip(texts, _new_ids(state), strict=True):
            text.push(tokens[len(text.tokens) :])
        return tf.constant([text.stopped for text in texts])

    return _new_ids(
        decoder.extend_until_stopped(extend, state, STOP_CHECK_EVERY, is_stopped, *arguments)
    )


def _search_batch(
    decoder: Decoder, batch: Sequence[_Row], sampling: SamplingConfig
) -> list[list[list[int]]]:
    """Returns the new ids of every row's beams, best first."""
    ids, lengths = decoder.beam_search(
        *_padded([row.prompt_ids for row in batch]),
        sampling.max_new_tokens,
        sampling.beams,
        sampling.length_penalty,
        sampling.repetition_penalty,
        _banned(sampling),
    )
    return [
        [beam[:length].tolist() for beam, length in zip(*beams, strict=True)]
        for beams in zip(ids.numpy(), lengths.numpy(), strict=True)
    ]


def _sample(tokenizer: Vocabulary, row: _Row, tokens: list[int], stops: Sequence[str]) -> Sample:
    if not stops:
        text = tokenizer.continuation(row.prompt_ids, tokens)
        return Sample(row.prompt, text, row.seed, tokens)
    cut = ContinuationText(tokenizer, row.prompt_ids, stops)
    return Sample(row.prompt, cut.push(tokens) + cut.finish(), row.seed, cut.tokens)


def _padded(prompt_ids: Sequence[np.ndarray]) -> tuple[tf.Tensor, tf.Tensor]:
    """int32[B, P] and int32[B]."""
    lengths = [len(ids) for ids in prompt_ids]
    padded = np.zeros((len(prompt_ids), max(lengths, default=0)), np.int32)
    for row, ids in zip(padded, prompt_ids, strict=True):
        row[: len(ids)] = ids
    return tf.constant(padded), tf.constant(lengths, tf.int32)


def _new_ids(state: DecodeState) -> list[list[int]]:
    """Returns the new ids of every row, without the end token.

    Uses NumPy: a dozen eager operations of TensorFlow take as long as two tokens.
    """
    rows = state.token_ids.numpy(), state.lengths.numpy(), state.new_lengths.numpy()
    return [ids[start : start + count].tolist() for ids, start, count in zip(*rows, strict=True)]


def _settings(sampling: SamplingConfig) -> SamplingSettings:
    settings = {setting.name: getattr(sampling, setting.name) for setting in DISTRIBUTION}
    return SamplingSettings(**settings).as_tensors()


def _banned(sampling: SamplingConfig) -> tf.Tensor:
    return tf.constant(sampling.banned_tokens, tf.int32)


def _rows_in_memory(decoder: Decoder, prompt_length: int, sampling: SamplingConfig) -> int:
    """Returns the number of prompts or samples per batch.

    Raises:
      UserError: a single one does not fit into the memory of this machine.
    """
    row_bytes = sampling.beams * decoder.model.row_bytes(prompt_length + sampling.max_new_tokens)
    if row_bytes > machine_bytes():
        raise UserError(_memory_problem(sampling, row_bytes))
    return max(1, int(MEMORY_SHARE * machine_bytes()) // row_bytes)


@contextmanager
def _memory_errors(sampling: SamplingConfig) -> Iterator[None]:
    try:
        yield
    except (MemoryError, tf.errors.ResourceExhaustedError):
        raise UserError(_memory_problem(sampling)) from None


def _memory_problem(sampling: SamplingConfig, needed: int | None = None) -> str:
    amount = "more memory" if needed is None else f"{needed / 1e9:,.1f} GB"
    return (
        f"sampling.max_new_tokens = {sampling.max_new_tokens}, beams = {sampling.beams}: one sample "
        f"needs {amount}; this machine has {machine_bytes() / 1e9:,.1f} GB"
    )


def _check(
    sampling: SamplingConfig,
    tokenizer: Vocabulary,
    prompts: Sequence[str],
    seeds: Sequence[int],
    num_samples: int,
) -> None:
    problems = banned_token_problems(sampling.banned_tokens, tokenizer.vocab_size)
    if sampling.beams > 1 and num_samples > sampling.beams:
        problem = f"should be at most beams = {sampling.beams}"
        problems.append(ArgumentProblem("num_samples", num_samples, problem))
    with gathering(problems):
        check_seeds(seeds, num_samples)
    if problems:
        raise UserError(*problems)
    for prompt in prompts:
        check_prompt(prompt)
