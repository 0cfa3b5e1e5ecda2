"""The text on which an export and its source are compared."""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.sources import stories
from minigpt.corpus.token_store import Corpus
from minigpt.errors import ArgumentProblem, UserError
from minigpt.runs.run import Run, open_run_corpus
from minigpt.tokenizers import Tokenizer

TOKENS, PROMPTS, LINES = 2000, 50, 2000
# A prompt is the beginning of a held-out document; of a line, if there are few documents.
PROMPT_TOKENS = 8
# The number of ids that are read to find lines and prompts.
_READ_TOKENS = 400_000
# Bundled stories, if the text of the run is not available.
_STORIES = 400
# White space, control characters, several scripts, end tokens as text.
_HARD_LINES = (
    "",
    " ",
    "  two  spaces ",
    "tab\there",
    "\u2581 \u2581\u2581",
    "caf\u00e9 cafe\u0301 \ufb01",
    "\u0130stanbul \u1e9e \u03a3\u03a3",
    "\u65e5\u672c\u8a9e \ud55c\uad6d\uc5b4 \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "<end> <unk> [UNK] [PAD] <|endoftext|> <0x41>",
    "a\u0000b\u007f\u0085",
    "don't we'll I'M 12345 3.14 e-mail x_y",
)


@dataclass(frozen=True)
class Window:
    """Consecutive tokens of a text, or of a translation.

    Attributes:
      ids: int32[T + 1], T ≤ max_len.
      source: int32[S], the source of a translation, end token included; None for a text.
    """

    ids: np.ndarray
    source: np.ndarray | None = None


@dataclass(frozen=True)
class Material:
    """The text and the prompts on which an export and its source are compared.

    Attributes:
      origin: "held-out text of the run", or "bundled stories" if the run's text is not available.
      windows: about `TOKENS` targets in all, or fewer if the text is short.
      bytes: UTF-8 bytes of the targets, without end tokens.
      prompts: up to `PROMPTS` sources; or beginnings of documents or lines, of up to `prompt_tokens`
        tokens.
      lines: `LINES` lines of the text and hard ones.
      end_id: the end token.
      start_id: the token before the first one of a target.
    """

    origin: str
    windows: list[Window]
    bytes: int
    prompts: list[str]
    prompt_tokens: int
    lines: list[str]
    end_id: int
    start_id: int

    @property
    def tokens(self) -> int:
        return sum(len(window.ids) - 1 for window in self.windows)


def text_material(run: Run, tokenizer: Tokenizer, max_len: int) -> Material:
    """Returns material from the held-out text of a run, or from the bundled stories."""
    corpus = _corpus(run)
    if corpus is not None and corpus.val.tokens:
        origin = "held-out text of the run"
        ids = np.asarray(corpus.val.ids[:_READ_TOKENS], np.int32)
    else:
        origin, ids = "bundled stories", _story_ids(tokenizer)
    targets = ids[: TOKENS + 1]
    windows = [
        Window(targets[start : start + max_len + 1])
        for start in range(0, len(targets) - 1, max_len)
    ]
    texts = _documents(ids, tokenizer)
    count = max(1, min(PROMPT_TOKENS, max_len // 2))
    lines = [line for text in texts for line in text.splitlines()]
    beginnings = texts if len(texts) >= PROMPTS else [*texts, *_spread(lines, 2 * PROMPTS)]
    prompts = [
        tokenizer.decode(tokenizer.encode(text)[:count]) for text in beginnings[: 2 * PROMPTS]
    ]
    prompts = list(dict.fromkeys(prompt.rstrip("\ufffd") for prompt in prompts))
    return Material(
        origin=origin,
        windows=windows,
        bytes=_bytes(targets[1:], tokenizer),
        prompts=(prompts or [""])[:PROMPTS],
        prompt_tokens=count,
        lines=_spread([*_HARD_LINES, *lines], LINES),
        end_id=tokenizer.end_id,
        start_id=tokenizer.start_id,
    )


def pair_material(run: Run, tokenizer: Tokenizer, max_len: int) -> Material:
    """Returns material from the held-out pairs of a run.

    Raises:
      UserError: the pairs are not available any more.
    """
    corpus = _corpus(run)
    if corpus is None:
        raise UserError(ArgumentProblem("run", run.path, "its pairs have changed, or are missing"))
    pairs = Pairs(corpus.val.ids, tokenizer.end_id, max_len)
    start = np.array([tokenizer.start_id], np.int32)
    windows: list[Window] = []
    fitting = np.flatnonzero(pairs.fits).tolist()
    for index in fitting:
        if sum(len(window.ids) - 1 for window in windows) >= TOKENS:
            break
        windows.append(Window(np.concatenate([start, pairs.target(index)]), pairs.source(index)))
    some = range(min(len(pairs), LINES // 2))
    sources = [tokenizer.decode(pairs.source(index)[:-1]) for index in some]
    targets = [tokenizer.decode(pairs.target(index)[:-1]) for index in some]
    return Material(
        origin="held-out pairs of the run",
        windows=windows,
        bytes=_bytes(np.concatenate([window.ids[1:] for window in windows]), tokenizer),
        # Longer ones would be cut.
        prompts=[tokenizer.decode(pairs.source(i)[:-1]) for i in fitting[:PROMPTS]],
        prompt_tokens=0,
        lines=_spread([*_HARD_LINES, *sources, *targets], LINES),
        end_id=tokenizer.end_id,
        start_id=tokenizer.start_id,
    )


def _corpus(run: Run) -> Corpus | None:
    if not run.corpus_file.is_file():
        return None
    try:
        return open_run_corpus(run)
    except UserError:
        return None


def _story_ids(tokenizer: Tokenizer) -> np.ndarray:
    """Returns int32[N]: an end token, and each of the first stories followed by one."""
    end = np.array([tokenizer.end_id], np.int32)
    texts = tokenizer.encode_many(list(islice(stories(), _STORIES)))
    return np.concatenate([end, *(part for ids in texts for part in (ids, end))])


def _documents(ids: np.ndarray, tokenizer: Tokenizer) -> list[str]:
    ends = np.flatnonzero(ids == tokenizer.end_id)
    parts = [part[part != tokenizer.end_id] for part in np.split(ids, ends)]
    return [tokenizer.decode(part) for part in parts if len(part)]


def _bytes(ids: np.ndarray, tokenizer: Tokenizer) -> int:
    """Returns the UTF-8 bytes of token ids without end tokens; an unknown word counts as one byte."""
    sizes = [len(piece + tokenizer.separator) if piece else 0 for piece in tokenizer.pieces]
    if tokenizer.unknown_id is not None:
        sizes[tokenizer.unknown_id] = 1 + len(tokenizer.separator)
    return int(np.take(sizes, ids[ids != tokenizer.end_id]).sum())


def _spread(lines: list[str], count: int) -> list[str]:
    """Returns `count` different lines; if there are fewer, their pieces are joined to new ones."""
    lines = list(dict.fromkeys(lines))
    words = " ".join(lines).split(" ")
    draw = np.random.default_rng(0)
    while len(lines) < count:
        start = int(draw.integers(len(words)))
        lines.append(" ".join(words[start : start + int(draw.integers(1, 12))]))
    return lines[:count]
