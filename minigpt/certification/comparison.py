"""Compares an exported model with its source."""

import time
from itertools import takewhile
from typing import Any

import numpy as np

from minigpt.certification.exported import ExportedModel
from minigpt.certification.material import Material
from minigpt.evaluation.scores import bits_per_byte

NEW_TOKENS = 64
# The speed is the median of so many texts.
_TIMED = 3


def compare(
    source: ExportedModel, export: ExportedModel, material: Material, max_len: int
) -> dict[str, Any]:
    """Measures how an export differs from its source.

    Args:
      source: the model it was made from.
      export: the exported model.
      material: the text.
      max_len: the context. Continued texts end within it.
    Returns:
      The parts `logits`, `bits_per_byte`, `greedy`, `tokenizer` and `tokens_per_second` of a certificate.
    """
    new_tokens = max(1, min(NEW_TOKENS, max_len - material.prompt_tokens))
    return {
        "text": material.origin,
        **_logits(source, export, material),
        "greedy": _greedy(source, export, material, new_tokens),
        "tokenizer": _tokenizer(source, export, material.lines),
        "tokens_per_second": _speed(export, material.prompts, new_tokens),
    }


def _logits(source: ExportedModel, export: ExportedModel, material: Material) -> dict[str, Any]:
    if not export.has_logits:
        return {"logits": None, "bits_per_byte": None}
    difference = largest = 0.0
    losses, same = [0.0, 0.0], 0
    for window in material.windows:
        inputs, targets = window.ids[:-1], window.ids[1:]
        pair = [
            model.logits(inputs, window.source).astype(np.float32) for model in (source, export)
        ]
        # nan and inf count as the largest difference.
        gap = np.abs(pair[0] - pair[1])
        difference = max(difference, float(np.where(np.isfinite(gap), gap, np.inf).max()))
        largest = max(largest, float(np.abs(pair[0]).max()))
        same += int((pair[0].argmax(1) == pair[1].argmax(1)).sum())
        for i, logits in enumerate(pair):
            losses[i] += _loss(logits, targets)
    tokens = material.tokens
    bits = [bits_per_byte(loss / tokens, tokens, material.bytes) for loss in losses]
    return {
        "logits": {
            "tokens": tokens,
            "largest_difference": difference if np.isfinite(difference) else None,
            "largest_of_source": largest,
            "same_most_probable": same / tokens,
        },
        "bits_per_byte": {
            "tokens": tokens,
            "source": bits[0] if np.isfinite(bits[0]) else None,
            "export": bits[1] if np.isfinite(bits[1]) else None,
            "relative_difference": _relative(*bits),
        },
    }


def _relative(source: float, export: float) -> float | None:
    """Returns the relative difference of two scores; None if it is not a number, which JSON has not."""
    return abs(export - source) / source if source and np.isfinite(source + export) else None


def _loss(logits: np.ndarray, targets: np.ndarray) -> float:
    """Returns the sum of the cross-entropies of float32[T, V] and int32[T], in nats."""
    logits = logits.astype(np.float64)
    logits -= logits.max(1, keepdims=True)
    return float((np.log(np.exp(logits).sum(1)) - logits[np.arange(len(targets)), targets]).sum())


def _greedy(
    source: ExportedModel, export: ExportedModel, material: Material, new_tokens: int
) -> dict[str, Any]:
    prompts = material.prompts
    texts = [model.continue_greedily(prompts, new_tokens) for model in (source, export)]
    same = sum(ours == theirs for ours, theirs in zip(*texts, strict=True))
    gaps = [
        0.0 if ours == theirs else _gap(source, prompt, theirs, new_tokens, material)
        for prompt, ours, theirs in zip(prompts, *texts, strict=True)
    ]
    common = sum(
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*pair, strict=False)))
        for pair in zip(*texts, strict=True)
    )
    characters = sum(map(len, texts[0]))
    # The second largest: one text may be split into other tokens than those that were generated.
    gap = sorted(np.nan_to_num(gaps, nan=np.inf))[-2:][0]
    return {
        "prompts": len(prompts),
        "new_tokens": new_tokens,
        "same_texts": same,
        "same_before_first_difference": common / characters if characters else 1.0,
        "second_largest_gap": float(gap) if np.isfinite(gap) else None,
    }


def _gap(
    source: ExportedModel, prompt: str, text: str, new_tokens: int, material: Material
) -> float:
    """Returns how far a token of a continuation is from being the most probable one.

    If two tokens are almost equally probable, an export may choose the other one.

    Returns:
      the largest difference between the largest logit of the source and the logit of the token.
    """
    end = [material.end_id]
    read, translated = source.encode([prompt])[0], material.windows[0].source is not None
    ids = end + source.encode([text])[0] if translated else source.encode([prompt + text])[0]
    start = 1 if translated or not read else len(read)
    if not translated and not read:
        ids = end + ids
    if len(ids) - start < new_tokens:
        ids += end
    source_ids = np.array(read + end, np.int32) if translated else None
    logits = source.logits(np.array(ids[:-1], np.int32), source_ids)
    chosen = logits[np.arange(len(logits)), ids[1:]]
    return float((logits.max(1) - chosen)[start - 1 :].max(initial=0))


def _tokenizer(source: ExportedModel, export: ExportedModel, lines: list[str]) -> dict[str, Any]:
    pairs = zip(source.encode(lines), export.encode(lines), strict=True)
    return {"lines": len(lines), "same": sum(ours == theirs for ours, theirs in pairs)}


def _speed(export: ExportedModel, prompts: list[str], new_tokens: int) -> float:
    """Returns new tokens per second of one text at a time; the first text is not counted."""
    seconds = []
    for _ in range(_TIMED + 1):
        began = time.perf_counter()
        (text,) = export.continue_greedily(prompts[:1], new_tokens)
        seconds.append(time.perf_counter() - began)
    tokens = len(export.encode([text])[0])
    return tokens / float(np.median(seconds[1:]))
