"""The text on which an export and its source are compared."""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.sources import stories
from minigpt.errors import ArgumentProblem, UserError
from minigpt.runs.run import Run, open_run_corpus
from minigpt.tokenizers import Tokenizer

TOKENS, PROMPTS, LINES = 2000, 50, 2000
PROMPT_TOKENS, LINE_TOKENS, NEW_TOKENS = 8, 24, 64
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
class Material:
    """The text and the prompts on which an export and its source are compared.

    Attributes:
      origin: "held-out text of the run", or "bundled stories" if the run's text is not available.
      windows: about `TOKENS` targets in all, or fewer if the text is short: int32[T + 1], T ≤ max_len.
      sources: of each window: int32[S], the source of a translation, end token included; None for a text.
      bytes: UTF-8 bytes of the targets, without end tokens.
      prompts: up to `PROMPTS` sources, or pieces of the text.
      new_tokens: how many follow a prompt within the context, up to `NEW_TOKENS`.
      max_len: the context.
      lines: up to `LINES` pieces of the text and hard ones.
      end_id: the end token.
      start_id: the token before the first one of a translation; None for texts.
    """

    origin: str
    windows: list[np.ndarray]
    sources: list[np.ndarray | None]
    bytes: int
    prompts: list[str]
    new_tokens: int
    max_len: int
    lines: list[str]
    end_id: int
    start_id: int | None = None


def text_material(run: Run, tokenizer: Tokenizer, max_len: int) -> Material:
    """Returns material from the held-out text of a run, or from the bundled stories."""
    ids, end_id, origin = _held_out(run), tokenizer.end_id, "held-out text of the run"
    if ids is None:
        origin = "bundled stories"
        encoded = tokenizer.encode_many(list(islice(stories(), _STORIES)))
        ids = np.concatenate([[end_id], *(np.append(each, end_id) for each in encoded)])
    targets = np.asarray(ids[: TOKENS + 1], np.int32)
    windows = [targets[i : i + max_len + 1] for i in range(0, len(targets) - 1, max_len)]
    count = max(1, min(PROMPT_TOKENS, max_len // 2))
    return Material(
        origin=origin,
        windows=windows,
        sources=[None] * len(windows),
        bytes=len(_text(targets[1:], tokenizer).encode()),
        prompts=list(dict.fromkeys(_pieces(ids, tokenizer, PROMPTS, count))),
        new_tokens=max(1, min(NEW_TOKENS, max_len - count)),
        max_len=max_len,
        lines=[*_HARD_LINES, *_pieces(ids, tokenizer, LINES, LINE_TOKENS)][:LINES],
        end_id=end_id,
    )


def pair_material(run: Run, tokenizer: Tokenizer, max_len: int) -> Material:
    """Returns material from the held-out pairs of a run.

    Raises:
      UserError: the pairs are not available any more.
    """
    ids = _held_out(run)
    if ids is None:
        raise UserError(ArgumentProblem("run", run.path, "its pairs have changed, or are missing"))
    pairs = Pairs(ids, tokenizer.end_id, max_len)
    # Longer ones would be cut.
    fitting = np.flatnonzero(pairs.fits)
    before = np.cumsum(pairs.target_lengths[fitting]) - pairs.target_lengths[fitting]
    compared = fitting[before < TOKENS].tolist()
    targets = [pairs.target(i) for i in compared]
    some = range(min(len(pairs), LINES // 2))
    sides = [_text(side(i), tokenizer) for side in (pairs.source, pairs.target) for i in some]
    return Material(
        origin="held-out pairs of the run",
        windows=[np.append(np.int32(tokenizer.start_id), ids) for ids in targets],
        sources=[pairs.source(i) for i in compared],
        bytes=sum(len(_text(ids, tokenizer).encode()) for ids in targets),
        prompts=[_text(pairs.source(i), tokenizer) for i in fitting[:PROMPTS]],
        new_tokens=min(NEW_TOKENS, max_len),
        max_len=max_len,
        lines=[*_HARD_LINES, *sides][:LINES],
        end_id=tokenizer.end_id,
        start_id=tokenizer.start_id,
    )


def _held_out(run: Run) -> np.ndarray | None:
    """Returns the ids of the held-out part; None if it is empty, or not available any more."""
    try:
        corpus = open_run_corpus(run) if run.corpus_file.is_file() else None
    except UserError:
        return None
    return corpus.val.ids if corpus is not None and corpus.val.tokens else None


def _text(ids: np.ndarray, tokenizer: Tokenizer) -> str:
    return tokenizer.decode(ids[ids != tokenizer.end_id])


def _pieces(ids: np.ndarray, tokenizer: Tokenizer, number: int, length: int) -> list[str]:
    """Returns pieces of a text of about equal lengths, at equal distances."""
    starts = np.linspace(0, max(0, len(ids) - length), number, dtype=np.int64)
    pieces = (_text(np.asarray(ids[i : i + length]), tokenizer) for i in starts)
    # Without the parts of characters that are divided.
    return [piece.strip("\ufffd") for piece in pieces]
