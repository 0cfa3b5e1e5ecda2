"""Compares an exported model with its source."""

import time
from itertools import takewhile
from typing import Any

import numpy as np

from minigpt.errors import UserError
from minigpt.evaluation.scores import bits_per_byte
from minigpt.targets.certification.exported import ExportedModel, ExportedTexts
from minigpt.targets.certification.judgment import Judgment, judge_continuations, judge_translations
from minigpt.targets.certification.material import Material
from minigpt.targets.certification.readers.text_model import OpenedModel
from minigpt.targets.certification.stepped import SteppedModel

NEW_TOKENS = 64
# The speed is the median of so many texts.
_TIMED = 3


def compare(
    source: OpenedModel, export: ExportedModel, material: Material, max_len: int
) -> dict[str, Any]:
    """Measures how an export differs from its source.

    Args:
      source: the model it was made from.
      export: the exported model.
      material: the text.
      max_len: the context. Continued texts end within it.
    Returns:
      The parts `logits`, `bits_per_byte`, `greedy`, `tokenizer` and `tokens_per_second` of a certificate,
      and `text_to_text` of an export with a `text_graph`.
    Raises:
      UserError: the sizes of the models differ.
    """
    if export.max_len not in (None, max_len):
        raise _other_run("max_len", export.max_len, max_len)
    new_tokens = max(1, min(NEW_TOKENS, max_len - material.prompt_tokens))

    def compare_texts(export: ExportedTexts, texts: list[str]) -> dict[str, Any]:
        return {
            "greedy": _greedy(source, texts, material, new_tokens, max_len),
            "tokenizer": _tokenizer(source, export, material.lines),
            "tokens_per_second": _speed(export, material.prompts, new_tokens),
        }

    # First: it takes less time, and finds exports of another run.
    scored = _logits(source, export, material)
    texts = _continued(source, export, material.prompts, new_tokens)
    measured = {
        "text": material.origin,
        **scored,
        **compare_texts(export, texts),
    }
    if graph := export.text_graph:
        own = _continued(source, graph, material.prompts, new_tokens)
        same = sum(a == b for a, b in zip(texts, own, strict=True))
        measured["text_to_text"] = {**compare_texts(graph, own), "same_as_model": same}
    return measured


def _logits(source: ExportedModel, export: ExportedModel, material: Material) -> dict[str, Any]:
    if not export.has_logits:
        return {"logits": None, "bits_per_byte": None}
    difference = largest = 0.0
    losses, same = [0.0, 0.0], 0
    texts = [window.ids[:-1] for window in material.windows]
    sources = [window.source for window in material.windows]
    both = [model.all_logits(texts, sources) for model in (source, export)]
    for window, *scored in zip(material.windows, *both, strict=True):
        pair, targets = [logits.astype(np.float32) for logits in scored], window.ids[1:]
        if pair[0].shape != pair[1].shape:
            raise _other_run("vocab_size", pair[1].shape[1], pair[0].shape[1])
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


def _other_run(name: str, export: int | None, run: int) -> UserError:
    problem = f"the export has {name} = {export}, the run {run}; should be an export of this run"
    return UserError(problem)


def _relative(source: float, export: float) -> float | None:
    """Returns the relative difference of two scores; None if it is not a number, which JSON has not."""
    return abs(export - source) / source if source and np.isfinite(source + export) else None


def _loss(logits: np.ndarray, targets: np.ndarray) -> float:
    """Returns the sum of the cross-entropies of float32[T, V] and int32[T], in nats."""
    logits = logits.astype(np.float64)
    logits -= logits.max(1, keepdims=True)
    return float((np.log(np.exp(logits).sum(1)) - logits[np.arange(len(targets)), targets]).sum())


def _greedy(
    source: OpenedModel, theirs: list[str], material: Material, new_tokens: int, max_len: int
) -> dict[str, Any]:
    prompts, found = material.prompts, _found_texts(source, theirs, material, new_tokens, max_len)
    common = sum(
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
        for ours, theirs, _ in found
    )
    characters = sum(len(ours) for ours, _, _ in found)
    # The second largest: one text may be split into other tokens than those that were generated.
    gap = sorted(np.nan_to_num([gap for _, _, gap in found], nan=np.inf))[-2:][0]
    return {
        "prompts": len(prompts),
        "new_tokens": new_tokens,
        "same_texts": sum(ours == theirs for ours, theirs, _ in found),
        "same_before_first_difference": common / characters if characters else 1.0,
        "second_largest_gap": float(gap) if np.isfinite(gap) else None,
    }


def _found_texts(
    source: OpenedModel, theirs: list[str], material: Material, new_tokens: int, max_len: int
) -> list[tuple[str, str, float]]:
    """Returns the continuation of each prompt by the source and by the export, and the latter's gap.

    theirs: the continuations by the export.
    """

    def judge(indices: list[int]) -> dict[int, Judgment]:
        some, texts = [material.prompts[i] for i in indices], [theirs[i] for i in indices]
        arguments = material.end_id, new_tokens, max_len
        if material.windows[0].source is None:
            judged = judge_continuations(source, some, texts, *arguments)
        else:
            judged = judge_translations(source, some, texts, *arguments, material.start_id)
        return dict(zip(indices, judged, strict=True))

    everything, ours = list(range(len(theirs))), list(theirs)
    # Generating texts takes much longer than scoring those of the export.
    judged = judge(everything) if material.windows[0].source is None else {}
    unsure = [i for i in everything if i not in judged or not judged[i].is_greedy]
    if unsure:
        texts = source.continue_greedily([material.prompts[i] for i in unsure], new_tokens)
        for i, text in zip(unsure, texts, strict=True):
            ours[i] = text
    different = [i for i in unsure if ours[i] != theirs[i]]
    judged = judged or judge(different)
    gaps = {i: judged[i].gap for i in different}
    return [(ours[i], theirs[i], gaps.get(i, 0.0)) for i in everything]


def _continued(
    source: OpenedModel, export: ExportedTexts, prompts: list[str], new_tokens: int
) -> list[str]:
    """Returns the continuations by the export."""
    if not isinstance(export, SteppedModel):
        return export.continue_greedily(prompts, new_tokens)
    # Libraries show bytes that are not UTF-8, which models also generate, in different ways. The ids are
    # compared; `_tokenizer` compares what both make of ids of text.
    found = export.continue_greedily_in_ids(prompts, new_tokens)
    return [source.decode_new(prompt_ids, new_ids) for prompt_ids, new_ids in found]


def _tokenizer(source: OpenedModel, export: ExportedTexts, lines: list[str]) -> dict[str, Any]:
    """Counts the lines that both encode to the same ids, and decode to the same text."""
    encoded = list(zip(source.encode(lines), export.encode(lines), strict=True))
    same = [ours == theirs for ours, theirs in encoded]
    if isinstance(export, SteppedModel):
        decode = export.tokenizer.decode
        same = [
            a and source.decode_new([], ids) == decode(ids)
            for a, (ids, _) in zip(same, encoded, strict=True)
        ]
    return {"lines": len(lines), "same": sum(same)}


def _speed(export: ExportedTexts, prompts: list[str], new_tokens: int) -> float:
    """Returns new tokens per second of one text at a time; the first text is not counted."""
    seconds = []
    for _ in range(_TIMED + 1):
        began = time.perf_counter()
        (text,) = export.continue_greedily(prompts[:1], new_tokens)
        seconds.append(time.perf_counter() - began)
    tokens = len(export.encode([text])[0])
    return tokens / float(np.median(seconds[1:]))
