"""Samples of a model, and held-out text of the same length."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigpt.config import SamplingConfig
from minigpt.corpus.pair_batches import Pairs
from minigpt.insight.passages import Text
from minigpt.insight.token_bytes import TokenBytes
from minigpt.tokenizers import Tokenizer

_PROMPT_TOKENS = 16
# A sample ends where the context does: beyond it, every token takes as long as the whole context. But in
# fewer than the least tokens there is no passage to find.
_LEAST_TOKENS, _MOST_TOKENS = 64, 200
# With fewer documents, held-out text is taken from everywhere and not from their beginnings.
_FEW_DOCUMENTS = 32
_SETTINGS = {
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "banned_tokens",
}
# The fractional parts of its multiples are evenly spread, however many there are.
_GOLDEN_RATIO = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Draw:
    """A text with or without a prompt before it, in the bytes of its tokens.

    Attributes:
      prompt: the prompt, or the source of a translation.
      text: what follows it.
      data: uint8[N], the bytes of the prompt and the text.
      begin: where the text begins in `data`.
      last_bytes: int64[T], the last byte of each token of the text; end tokens are left out.
    """

    prompt: str
    text: str
    data: np.ndarray
    begin: int
    last_bytes: np.ndarray

    def as_text(self, is_ranked: bool) -> Text:
        """Returns it as a text in which passages are searched."""
        return Text(self.data, self.begin, is_ranked)

    def inside(self, spans: list[tuple[int, int]]) -> int:
        """Returns the number of tokens that end inside spans of bytes, which are in order."""
        begins = np.array([begin for begin, _ in spans], np.int64)
        ends = np.array([end for _, end in spans], np.int64)
        started = np.searchsorted(begins, self.last_bytes, side="right")
        return int((started - np.searchsorted(ends, self.last_bytes, side="right")).sum())


def new_draw(
    token_bytes: TokenBytes, prompt: str, text: str, prompt_ids: np.ndarray, ids: np.ndarray
) -> Draw:
    """Returns a draw.

    Args:
      token_bytes: the bytes of the tokens.
      prompt, text: as in `Draw`.
      prompt_ids, ids: integers[P] and [T], the tokens before the text and those of the text.
    """
    tokenizer = token_bytes.tokenizer
    begin = len(token_bytes.join(prompt_ids))
    data = token_bytes.join(np.concatenate([prompt_ids, ids]).astype(np.int64))
    ends = begin + token_bytes.ends(ids)
    # A separator follows the last word of a passage.
    last_bytes = ends[np.asarray(ids) != tokenizer.end_id] - len(tokenizer.separator) - 1
    return Draw(prompt, text, data, begin, last_bytes)


def draw_samples(
    model: Any, token_bytes: TokenBytes, held_out: np.ndarray, sampling: SamplingConfig, tokens: int
) -> Iterator[tuple[Draw, Draw]]:
    """Draws samples until there are enough tokens, and takes held-out text of the same length.

    Of four samples, two continue the beginning of a held-out text, one continues a prompt of the run, and
    one has no prompt. Sample n has the seed n. Temperature, filters, penalty and bans are those of the run;
    there are no stop strings and no beams. If sampling is greedy, every prompt is continued once.

    Args:
      model: a `PortableTextModel` or a `TextModel`.
      token_bytes: the bytes of its tokens.
      held_out: the held-out ids, integers[n].
      sampling: the settings of the run.
      tokens: the number of tokens to draw; there may be fewer if the model ends its texts early.
    Yields:
      a sample and a held-out text.
    """
    tokenizer = token_bytes.tokenizer
    prompt_tokens = min(_PROMPT_TOKENS, model.max_len // 2)
    length = min(max(model.max_len - prompt_tokens, _LEAST_TOKENS), _MOST_TOKENS)
    places = _places(held_out, tokenizer.end_id, prompt_tokens + length)
    settings = sampling.model_dump(include=_SETTINGS)
    run_prompts, seen = sampling.prompts or [""], set()
    # A model that ends its texts at once is not asked for ever.
    for number in range(4 * (tokens // length + 4)):
        place = places[int(number * _GOLDEN_RATIO % 1 * len(places))]
        prompt = ("", run_prompts[number // 4 % len(run_prompts)])[number % 4 // 2]
        if number % 2:
            prompt = _first_document(held_out[place : place + prompt_tokens], tokenizer)
        if tokens <= 0 or (sampling.temperature == 0 and prompt in seen):
            continue
        seen.add(prompt)
        limit = min(tokens, length)
        (sample,) = model.samples(prompt, limit, seed=number, **settings)
        tokens -= len(sample.tokens)
        prompt_ids, ids = tokenizer.encode(prompt), np.array(sample.tokens, np.int64)
        begin = place + len(prompt_ids)
        before, after = held_out[place:begin], held_out[begin : begin + len(ids)]
        yield (
            new_draw(token_bytes, prompt, sample.text, prompt_ids, ids),
            new_draw(token_bytes, tokenizer.decode(before), tokenizer.decode(after), before, after),
        )


def draw_translations(
    model: Any, token_bytes: TokenBytes, held_out: np.ndarray, tokens: int
) -> Iterator[tuple[Draw, Draw]]:
    """Translates held-out sentences greedily, until there are enough tokens.

    Args:
      model: a `PortableTranslationModel` or a `TranslationModel`.
      token_bytes: the bytes of its tokens.
      held_out: the held-out ids of sources and targets in turn, integers[n].
      tokens: the number of target tokens.
    Yields:
      a translation, whose prompt is the source, and the reference.
    """
    tokenizer = token_bytes.tokenizer
    pairs = Pairs(held_out, tokenizer.end_id, model.max_len)
    fitting, nothing = np.flatnonzero(pairs.fits), np.zeros(0, np.int64)
    seen: set[int] = set()
    for number in range(len(fitting)):
        index = int(fitting[int(number * _GOLDEN_RATIO % 1 * len(fitting))])
        if tokens <= 0 or index in seen:
            continue
        seen.add(index)
        source = tokenizer.decode(pairs.source(index))
        (translation,) = model.translate([source])
        ids, reference = tokenizer.encode(translation), pairs.target(index)
        tokens -= max(1, len(ids))
        yield (
            new_draw(token_bytes, source, translation, nothing, ids),
            new_draw(token_bytes, source, tokenizer.decode(reference), nothing, reference),
        )


def _places(held_out: np.ndarray, end_id: int, tokens: int) -> np.ndarray:
    """Returns where texts of `tokens` tokens can begin, int64[P]: at documents, if there are enough."""
    # The last end token begins no document.
    places = np.flatnonzero(held_out[:-1] == end_id) + 1
    if len(places) < _FEW_DOCUMENTS:
        places = np.arange(1, len(held_out), max(1, min(tokens, len(held_out) // _FEW_DOCUMENTS)))
    complete = places[places + tokens <= len(held_out)]
    return complete if len(complete) else places[:1]


def _first_document(ids: np.ndarray, tokenizer: Tokenizer) -> str:
    """Returns the text of token ids before the first end token."""
    ends = np.flatnonzero(ids == tokenizer.end_id)
    return tokenizer.decode(ids[: ends[0]] if len(ends) else ids)
