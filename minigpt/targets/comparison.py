"""Compares an exported model with its source: logits, greedy texts, tokens, speed."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from minigpt.errors import UserError
from minigpt.evaluation.scores import bits_per_byte
from minigpt.targets.material import Material
from minigpt.targets.targets import Opened

QUESTIONS = 10
# The speed is the median of this many texts.
_TIMED = 3


def compare(source: Opened, export: Opened, material: Material) -> dict[str, Any]:
    """Measures how an export differs from its source.

    Args:
      source: the model it was made from.
      export: the exported model.
      material: the text.
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
        problem = (
            f"the export has {name} = {export}, the run {run}; should be an export of this run"
        )
        raise UserError(problem)


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
        pair = [logits.astype(np.float32) for logits in (ours, theirs)]
        # nan and inf count as the largest difference.
        gap = np.nan_to_num(np.abs(pair[0] - pair[1]), nan=np.inf)
        difference = max(difference, float(gap.max()))
        largest = max(largest, float(np.abs(pair[0]).max()))
        same += int((pair[0].argmax(1) == pair[1].argmax(1)).sum())
        losses += [_loss(logits, window[1:]) for logits in pair]
    bits = [bits_per_byte(loss / tokens, tokens, material.bytes) for loss in losses]
    relative = abs(bits[1] - bits[0]) / bits[0] if bits[0] else np.nan
    return {
        "logits": {
            "tokens": tokens,
            "largest_difference": _finite(difference),
            "largest_of_source": largest,
            "same_most_probable": same / tokens,
        },
        "bits_per_byte": {
            "tokens": tokens,
            "source": _finite(bits[0]),
            "export": _finite(bits[1]),
            "relative_difference": _finite(relative),
        },
    }


def _finite(value: float) -> float | None:
    """Returns None for nan and inf, which JSON does not have."""
    return float(value) if np.isfinite(value) else None


def _loss(logits: np.ndarray, targets: np.ndarray) -> float:
    """Returns the sum of the cross-entropies of float32[T, V] and int32[T], in nats."""
    logits = logits.astype(np.float64)
    logits -= logits.max(1, keepdims=True)
    return float((np.log(np.exp(logits).sum(1)) - logits[np.arange(len(targets)), targets]).sum())


def _greedy(source: Opened, export: Opened, material: Material) -> dict[str, Any]:
    """Compares the continuations by the export with those by the source."""
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
        "second_largest_gap": _finite(sorted(np.nan_to_num(gaps, nan=np.inf))[-2:][0]),
    }


def judge(source: Opened, material: Material, texts: Sequence[str]) -> list[tuple[bool, float]]:
    """Judges greedy texts of an export by the logits of its source, which generates nothing.

    Args:
      source: the model.
      material: the prompts. A text of fewer than `new_tokens` tokens is followed by an end token; what is
        beyond them, or beyond the context, is not judged.
      texts: the continuations, or translations.
    Returns:
      For each text: whether the source certainly generates it, because each token is the only most probable
      one after those before it; and how far a token is from being the most probable one: the largest
      difference between the largest logit and the logit of the token. If two tokens are almost equally
      probable, an export may choose the other one.
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
