"""Reads `text_to_text.onnx` of an ONNX folder with onnxruntime alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.targets.certification.exported import ExportedTexts

# Texts that are read at a time.
_ROWS = 64


class OnnxTextGraph(ExportedTexts):
    """The graph from prompts to continuations."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        # Texts of similar length together: a row is as long as the longest one.
        order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
        found: dict[int, list[int]] = {}
        for start in range(0, len(order), _ROWS):
            some = order[start : start + _ROWS]
            rows = self._run("prompt_ids", [lines[i] for i in some], 0)
            found |= {i: row[row >= 0].tolist() for i, row in zip(some, rows, strict=True)}
        return [found[i] for i in range(len(lines))]

    def continue_greedily(self, prompts: Sequence[str], max_new_tokens: int) -> list[str]:
        return [
            text
            for start in range(0, len(prompts), _ROWS)
            for text in self._run("text", prompts[start : start + _ROWS], max_new_tokens)
        ]

    def _run(self, output: str, prompts: Sequence[str], max_new_tokens: int) -> Any:
        inputs = {
            "prompt": np.array(prompts, object),
            "max_new_tokens": np.array(max_new_tokens, np.int32),
            "temperature": np.array(0, np.float32),
            "top_k": np.array(0, np.int32),
            "top_p": np.array(1, np.float32),
            "seed": np.array(0, np.int32),
        }
        return self._session.run([output], inputs)[0]
