"""What a model writes: prompts in, texts out, whole or piece by piece."""

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from minigpt.config import SamplingConfig
from minigpt.errors import UserError
from minigpt.generation import SETTINGS_SPEC, Decoder, Settings, cut_at_stop
from minigpt.inference.prompts import check_prompt
from minigpt.tokenizers import Tokenizer

# Tokens between two looks for a stop string. What was drawn behind one is thrown away.
STOP_EVERY = 8


@dataclass(frozen=True)
class Sample:
    """A prompt and its continuation.

    Attributes:
      prompt: as given.
      text: the continuation alone, without the stop string that ended it. Without one, the decoding of
        the whole is the prompt's decoding + text.
      seed: of the draws.
      tokens: ids of the continuation; where a stop string ended it, up to the token that completed it.
    """

    prompt: str
    text: str
    seed: int
    tokens: list[int]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class _Row(NamedTuple):
    prompt: str
    prompt_ids: np.ndarray
    seed: int


def generate(
    decoder: Decoder,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    seeds: Sequence[int],
    sampling: SamplingConfig,
    num_samples: int = 1,
) -> list[Sample]:
    """Continues prompts, each with its own seed.

    Args:
      sampling: how; its own prompts, seed and print_every play no part.
      num_samples: of each prompt; sample i uses its seed + i. With beams, the so many best.
    Returns:
      The first prompt's samples, then the second one's, and so on.
    Raises:
      UserError: a banned token is outside the vocabulary, or num_samples more than the beams.
    """
    _check(sampling, tokenizer, prompts, seeds, num_samples)
    searching = sampling.beams > 1
    rows = [
        _Row(prompt, tokenizer.encode(prompt), int(seed))
        for prompt, seed in zip(prompts, seeds, strict=True)
    ]
    many = [
        row._replace(seed=row.seed + (0 if searching else number))
        for row in rows
        for number in range(num_samples)
    ]
    if searching:
        new_ids = _best(decoder, rows, sampling, num_samples)
    else:
        new_ids = _drawn(decoder, tokenizer, many, sampling)
    return [
        _sample(tokenizer, row, tokens, sampling.stop)
        for row, tokens in zip(many, new_ids, strict=True)
    ]


def stream(
    decoder: Decoder, tokenizer: Tokenizer, prompt: str, seed: int, sampling: SamplingConfig
) -> Iterator[str]:
    """The text that `generate` gives, piece by piece as it is made, never a broken character.

    What may turn out to be the beginning of a stop string is held back until that is known.

    Raises:
      UserError: a banned token is outside the vocabulary, or there are beams: which text is best is
        known at the end only.
    """
    _check(sampling, tokenizer, [prompt], [seed], 1)
    if sampling.beams > 1:
        raise UserError(
            f"beams = {sampling.beams}: cannot be streamed; the best text is known at the end only"
        )
    prompt_ids = tokenizer.encode(prompt)
    settings = _settings(sampling)
    progress = decoder.begin(*_padded([prompt_ids]), sampling.max_new_tokens)
    given, ended = 0, sampling.max_new_tokens == 0
    while not ended:
        progress = decoder.proceed(progress, 1, settings, [seed], _banned(sampling))
        (tokens,) = _written(decoder, progress)
        text, stopped = _cut(tokenizer.continuation(prompt_ids, tokens), sampling.stop)
        last = int(progress.step) == sampling.max_new_tokens
        ended = stopped or last or bool(progress.finished[0])
        ready = len(text) if ended else len(text) - _begun(text, sampling.stop)
        if ready > given:
            yield text[given:ready]
            given = ready


def _drawn(
    decoder: Decoder,
    tokenizer: Tokenizer,
    rows: Sequence[_Row],
    sampling: SamplingConfig,
) -> list[list[int]]:
    """New ids of every row."""
    prompt_ids = [row.prompt_ids for row in rows]
    how = _settings(sampling), tf.constant([row.seed for row in rows], tf.int32), _banned(sampling)
    progress = decoder.begin(*_padded(prompt_ids), sampling.max_new_tokens)
    longest = max((len(ids) for ids in prompt_ids), default=0) + sampling.max_new_tokens
    fits = longest <= decoder.model.max_len
    proceed = decoder.proceed_in_context if fits else decoder.proceed
    if not sampling.stop:
        progress = proceed(progress, sampling.max_new_tokens, *how)
        return _written(decoder, progress)
    new_ids: list[list[int]] = [[] for _ in rows]
    for _ in range(0, sampling.max_new_tokens, STOP_EVERY):
        progress = proceed(progress, STOP_EVERY, *how)
        new_ids = _written(decoder, progress)
        texts = [tokenizer.continuation(*ids) for ids in zip(prompt_ids, new_ids, strict=True)]
        stopped = cut_at_stop(tf.constant(texts, tf.string), tf.constant(sampling.stop))[1]
        if tf.reduce_all(stopped | progress.finished):
            break
    return new_ids


def _best(
    decoder: Decoder, rows: Sequence[_Row], sampling: SamplingConfig, num_samples: int
) -> list[list[int]]:
    """New ids of every prompt's num_samples best beams."""
    ids, lengths = decoder.search(
        *_padded([row.prompt_ids for row in rows]),
        sampling.max_new_tokens,
        sampling.beams,
        sampling.length_penalty,
        sampling.repetition_penalty,
        _banned(sampling),
    )
    return [
        tokens
        for of_prompt in zip(ids[:, :num_samples], lengths[:, :num_samples], strict=True)
        for tokens in _rows(*of_prompt)
    ]


def _sample(tokenizer: Tokenizer, row: _Row, tokens: list[int], stop: Sequence[str]) -> Sample:
    def cut(count: int) -> tuple[str, bool]:
        return _cut(tokenizer.continuation(row.prompt_ids, tokens[:count]), stop)

    text, stopped = cut(len(tokens))
    if stopped:
        counts = range(len(tokens) + 1)
        tokens = tokens[: bisect.bisect_left(counts, True, key=lambda count: cut(count)[1])]
    return Sample(row.prompt, text, row.seed, tokens)


def _cut(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    if not stop:
        return text, False
    texts, stopped = cut_at_stop(tf.constant([text]), tf.constant(list(stop)))
    return texts.numpy()[0].decode(), bool(stopped[0])


def _begun(text: str, stop: Sequence[str]) -> int:
    """How many characters at the end of `text` may be the beginning of a stop string."""
    counts = (n for s in stop for n in range(1, len(s)) if text.endswith(s[:n]))
    return max(counts, default=0)


def _padded(prompt_ids: Sequence[np.ndarray]) -> tuple[tf.Tensor, tf.Tensor]:
    """int32[B, P] and int32[B]."""
    lengths = [len(ids) for ids in prompt_ids]
    padded = np.zeros((len(prompt_ids), max(lengths, default=0)), np.int32)
    for row, ids in zip(padded, prompt_ids, strict=True):
        row[: len(ids)] = ids
    return tf.constant(padded), tf.constant(lengths, tf.int32)


def _written(decoder: Decoder, progress: Any) -> list[list[int]]:
    """`Decoder.written`, at once: a dozen operations of TensorFlow take as long as two tokens."""
    starts, step = progress.lengths.numpy(), int(progress.step)
    rows = [
        ids[start : start + step].tolist()
        for ids, start in zip(progress.token_ids.numpy(), starts, strict=True)
    ]
    return [list(itertools.takewhile(decoder.end_id.__ne__, row)) for row in rows]


def _rows(ids: tf.Tensor, lengths: tf.Tensor) -> list[list[int]]:
    return [row[:length].tolist() for row, length in zip(ids.numpy(), lengths.numpy(), strict=True)]


def _settings(sampling: SamplingConfig) -> Settings:
    values = (getattr(sampling, name) for name in Settings._fields)
    return Settings(
        *(
            spec.dtype.as_numpy_dtype(value)
            for value, spec in zip(values, SETTINGS_SPEC, strict=True)
        )
    )


def _banned(sampling: SamplingConfig) -> tf.Tensor:
    return tf.constant(sampling.banned_tokens, tf.int32)


def _check(
    sampling: SamplingConfig,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    seeds: Sequence[int],
    num_samples: int,
) -> None:
    problems = [
        f"banned_tokens: {token}: should be an id from 0 to {tokenizer.vocab_size - 1}"
        for token in sampling.banned_tokens
        if token >= tokenizer.vocab_size
    ]
    if sampling.beams > 1 and num_samples > sampling.beams:
        problems.append(f"num_samples = {num_samples}: should be at most beams = {sampling.beams}")
    problems += [
        f"seed = {seed}: should be from 0 to 2147483647, with num_samples = {num_samples} added"
        for seed in seeds
        if not 0 <= seed <= 2**31 - num_samples
    ]
    if problems:
        raise UserError(*problems)
    for prompt in prompts:
        check_prompt(prompt)
