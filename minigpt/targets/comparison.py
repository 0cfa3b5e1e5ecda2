"""Compares an exported model with its source: logits, greedy texts, tokens, speed; and the text for it."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.sources import stories
from minigpt.errors import ArgumentProblem, UserError
from minigpt.evaluation.scores import bits_per_byte
from minigpt.generation.base_models import target_log_probabilities
from minigpt.runs.records import number
from minigpt.runs.run import Run, open_run_corpus
from minigpt.targets.targets import Opened
from minigpt.tokenizers.base import Tokenizer

QUESTIONS = 10
# The speed is the median of this many texts.
_TIMED = 3
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
      origin: what the text is.
      windows: about `TOKENS` targets in all: int32[T + 1], T ≤ max_len.
      sources: of each window: int32[S], the source of a translation, end token included; None for a text.
      bytes: UTF-8 bytes of the targets, without end tokens.
      prompts: up to `PROMPTS` sources, or pieces of the text.
      new_tokens: how many follow a prompt within the context, up to `NEW_TOKENS`.
      lines: up to `LINES` pieces of the text and hard ones.
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
    if run.config.data.source == "dialogues":
        # Validation counts the answers only.
        origin += ", with the questions"
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
    """Returns material from the held-out pairs of a run."""
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
        corpus = open_run_corpus(run)
    except UserError:
        return None
    return corpus.val.ids if corpus.val.tokens else None


def _text(ids: np.ndarray, tokenizer: Tokenizer) -> str:
    return tokenizer.decode(ids[ids != tokenizer.end_id])


def _pieces(ids: np.ndarray, tokenizer: Tokenizer, number: int, length: int) -> list[str]:
    """Returns pieces of a text of about equal lengths, at equal distances."""
    starts = np.linspace(0, max(0, len(ids) - length), number, dtype=np.int64)
    pieces = (_text(np.asarray(ids[i : i + length]), tokenizer) for i in starts)
    # Without the parts of characters that are divided.
    return [piece.strip("\ufffd") for piece in pieces]


def compare(source: Opened, export: Opened, material: Material) -> dict[str, Any]:
    """Measures how an export differs from its source.

    Returns:
      The parts `logits`, `bits_per_byte`, `greedy`, `tokenizer` and `tokens_per_second` of a certificate,
      and `answers` of a model for dialogues.
    Raises:
      UserError: the sizes of the models differ.
    """
    _check_size("max_len", export.max_len or material.max_len, material.max_len)
    measured = {
        "text": material.origin,
        # First: it takes less time, and finds exports of another run.
        **_logits(source, export, material),
        "greedy": _greedy(source, export, material),
        "tokenizer": _tokenizer(source, export, material.lines),
        "tokens_per_second": _speed(export, material),
    }
    if source.answer and export.answer:
        questions = [text for text in material.prompts if text][:QUESTIONS]
        # Of a small context, a question may fill more than half.
        with suppress(UserError):
            limit = material.new_tokens // 2
            both = source.answer(questions, limit), export.answer(questions, limit)
            same = sum(a == b for a, b in zip(*both, strict=True))
            measured["answers"] = {"questions": len(questions), "same": same}
    return measured


def _check_size(name: str, export: int, run: int) -> None:
    if export != run:
        sizes = f"the export has {name} = {export}, the run {run}"
        raise UserError(f"{sizes}; should be an export of this run")


def _logits(source: Opened, export: Opened, material: Material) -> dict[str, Any]:
    if export.logits is None:
        return {"logits": None, "bits_per_byte": None}
    assert source.logits
    difference = largest = 0.0
    given = [window[:-1] for window in material.windows], material.sources
    losses, same, tokens = np.zeros(2), 0, sum(map(len, given[0]))
    both = source.logits(*given), export.logits(*given)
    for window, ours, theirs in zip(material.windows, *both, strict=True):
        _check_size("vocab_size", theirs.shape[1], ours.shape[1])
        ours, theirs = ours.astype(np.float32), theirs.astype(np.float32)
        # nan and inf count as the largest difference.
        gap = np.nan_to_num(np.abs(ours - theirs), nan=np.inf)
        difference = max(difference, float(gap.max()))
        largest = max(largest, float(np.abs(ours).max()))
        same += int((ours.argmax(1) == theirs.argmax(1)).sum())
        losses -= [target_log_probabilities(each, window[1:]).sum() for each in (ours, theirs)]
    bits = [bits_per_byte(loss / tokens, tokens, material.bytes) for loss in losses]
    logits = {
        "largest_difference": number(difference),
        "largest_of_source": largest,
        "same_most_probable": same / tokens,
    }
    scores = {
        "source": number(bits[0]),
        "export": number(bits[1]),
        "relative_difference": number(abs(bits[1] - bits[0]) / bits[0] if bits[0] else np.nan),
    }
    over = {"tokens": tokens}
    return {"logits": over | logits, "bits_per_byte": over | scores}


def _greedy(source: Opened, export: Opened, material: Material) -> dict[str, Any]:
    prompts, new_tokens = material.prompts, material.new_tokens
    theirs = export.continue_greedily(prompts, new_tokens)
    if export.gives_ids:
        assert source.decode
        theirs = list(map(source.decode, source.encode(prompts), theirs))
    judged, ours = judge(source, material, theirs), list(theirs)
    # Generating texts takes much longer than scoring those of the export.
    unsure = [i for i, (is_greedy, _) in enumerate(judged) if not is_greedy]
    generated = source.continue_greedily([prompts[i] for i in unsure], new_tokens)
    for i, text in zip(unsure, generated, strict=True):
        ours[i] = text
    pairs = list(zip(ours, theirs, strict=True))
    gaps = [gap if a != b else 0.0 for (a, b), (_, gap) in zip(pairs, judged, strict=True)]
    common = sum(len(os.path.commonprefix(pair)) for pair in pairs)  # noqa: RUF071  # of texts
    characters = sum(map(len, ours))
    return {
        "prompts": len(prompts),
        "new_tokens": new_tokens,
        "same_texts": sum(a == b for a, b in pairs),
        "same_before_first_difference": common / characters if characters else 1.0,
        # The second largest: one text may be split into other tokens than those that were generated.
        "second_largest_gap": number(float(sorted(np.nan_to_num(gaps, nan=np.inf))[-2:][0])),
    }


def judge(source: Opened, material: Material, texts: Sequence[str]) -> list[tuple[bool, float]]:
    """Judges greedy texts of an export by the logits of its source, which generates nothing.

    A text of fewer than `new_tokens` tokens is followed by an end token. What is beyond them, or beyond the
    context, is not judged.

    Returns:
      For each text: whether the source certainly generates it, because each token is the only most probable
      one after those before it; and the largest difference between the largest logit and the logit of a
      token. If two tokens are almost equally probable, an export may choose the other one.
    """
    assert source.logits and source.decode
    end, start_id, max_len = material.end_id, material.start_id, material.max_len
    prompts, sources = source.encode(material.prompts), list[np.ndarray | None]()
    if start_id is None:
        whole = source.encode([a + b for a, b in zip(material.prompts, texts, strict=True)])
        # An empty prompt is read as an end token.
        rows = [ids if prompt else [end, *ids] for prompt, ids in zip(prompts, whole, strict=True)]
        begun, sources = [ids or [end] for ids in prompts], [None] * len(rows)
    else:
        rows = [[start_id, *ids] for ids in source.encode(texts)]
        sources += [np.array([*ids[: max_len - 1], end], np.int32) for ids in prompts]
        begun, prompts = [[start_id]] * len(rows), [[]] * len(rows)
    lengths = [min(max_len + 1, len(first) + material.new_tokens) for first in begun]
    rows = [[*ids, end][:length] for ids, length in zip(rows, lengths, strict=True)]
    scored = source.logits([np.array(ids[:-1], np.int32) for ids in rows], sources)
    judged = []
    for prompt, text, first, ids, logits in zip(prompts, texts, begun, rows, scored, strict=True):
        logits, new = logits[len(first) - 1 :], ids[len(first) :]
        chosen = logits[np.arange(len(new)), new]
        is_greedy = (
            # If logits are equal, a graph may choose another token than NumPy.
            bool(((logits >= chosen[:, None]).sum(1) == 1).all())
            # The text may be split into other tokens than those that were generated, or be cut.
            and ids[: len(first)] == first
            and source.decode(prompt, new[:-1] if new[-1:] == [end] else new) == text
        )
        judged.append((is_greedy, float((logits.max(1) - chosen).max(initial=0))))
    return judged


def _tokenizer(source: Opened, export: Opened, lines: list[str]) -> dict[str, Any]:
    """Counts the lines that both encode to the same ids, and decode to the same text."""
    assert source.decode
    decode = export.decode or source.decode
    both = zip(source.encode(lines), export.encode(lines), strict=True)
    same = sum(a == b and source.decode([], a) == decode([], b) for a, b in both)
    return {"lines": len(lines), "same": same}


def _speed(export: Opened, material: Material) -> float:
    """Returns new tokens per second of one text at a time; the first text is not counted."""
    seconds = []
    for _ in range(_TIMED + 1):
        began = time.perf_counter()
        (new,) = export.continue_greedily(material.prompts[:1], material.new_tokens)
        seconds.append(time.perf_counter() - began)
    tokens = len(new if export.gives_ids else export.encode([new])[0])
    return tokens / float(np.median(seconds[1:]))
