"""How much an export may differ from its source (docs/certificates.md)."""

from typing import Any

from minigpt.targets.targets import Tolerance

# The share of greedy texts of `text_to_text.onnx` that may not be those of `model.onnx`: both have the same
# matrices, but rounding decides between tokens that are almost equally probable.
_DIFFERENT_TEXTS = 0.1


def problems_of(measured: dict[str, Any], tolerance: Tolerance) -> list[str]:
    """Returns what is outside the tolerance; nothing if all is well.

    Args:
      measured: what `compare` returns.
      tolerance: the limits.
    """
    found = []
    logits, bits = measured["logits"], measured["bits_per_byte"]
    parts = {"": measured}
    if "text_to_text" in measured:
        graph = parts["text_to_text.onnx: "] = measured["text_to_text"]
        prompts = graph["greedy"]["prompts"]
        different = prompts - graph["same_as_model"]
        if different > max(1, _DIFFERENT_TEXTS * prompts):
            found.append(
                f"text_to_text.onnx: {different} of {prompts} greedy texts are not those of model.onnx"
            )
    gap_limit = None if logits else tolerance.gap
    if logits and logits["largest_difference"] is None:
        found.append("logits are nan or infinite")
    elif tolerance.logits is not None:
        limit = tolerance.logits * max(1.0, logits["largest_of_source"] if logits else 1.0)
        if logits and logits["largest_difference"] > limit:
            found.append(
                f"logits differ by up to {logits['largest_difference']:.3g}; should be at most {limit:.3g}"
            )
        gap_limit = 2 * limit
    for name, part in parts.items():
        greedy, gap = part["greedy"], part["greedy"]["second_largest_gap"]
        if gap_limit is not None and (gap is None or gap > gap_limit):
            found.append(
                f"{name}only {greedy['same_texts']} of {greedy['prompts']} greedy continuations are "
                "the same, and the others are less probable"
            )
    difference = bits["relative_difference"] if bits else 0.0
    if difference is not None and difference > tolerance.bits_per_byte:
        found.append(
            f"{bits['export']:.4f} bits per byte in place of {bits['source']:.4f}; should differ by at "
            f"most {tolerance.bits_per_byte:.2%}"
        )
    for name, part in parts.items():
        lines = part["tokenizer"]["lines"]
        if different := lines - part["tokenizer"]["same"]:
            found.append(f"{name}{different} of {lines} lines have other tokens")
    return found
