"""Reads a LiteRT file with ai-edge-litert."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from minigpt.targets.certification.stepped import Caches, SteppedModel
from minigpt.targets.documents import DocumentedTokenizer


class LiteRTFile(SteppedModel):
    """The signatures `prefill` and `decode`, and the files at the end."""

    def __init__(self, path: Path) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter = Interpreter(model_path=str(path))
        self._prefill = self._interpreter.get_signature_runner("prefill")
        self._decode = self._interpreter.get_signature_runner("decode")
        inputs = self._prefill.get_input_details()
        self._part = int(inputs["token_ids"]["shape"][1])
        self.empty_caches = {
            name: np.zeros(details["shape"], details["dtype"])
            for name, details in inputs.items()
            if name.startswith(("key_", "value_"))
        }
        with zipfile.ZipFile(path) as archive:
            self.tokenizer = DocumentedTokenizer(
                {name: archive.read(name) for name in archive.namelist()}
            )
        self.weights = self.tokenizer.settings["weights"]
        self.max_len = self.tokenizer.settings["max_len"]
        self.packages = ("ai-edge-litert", *self.tokenizer.packages)

    def logits(self, token_ids: np.ndarray, source_ids: np.ndarray | None = None) -> np.ndarray:
        caches, rows = self.empty_caches, []
        for position, token in enumerate(token_ids.tolist()):
            logits, caches = self.step([token], position, caches)
            rows.append(logits)
        return np.stack(rows)

    def step(self, ids: Sequence[int], position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
        if len(ids) == 1:
            found = self._decode(
                token_ids=np.array([ids], np.int32),
                position=np.array([position], np.int32),
                **caches,
            )
            return self._results(found)
        for start in range(0, len(ids), self._part):
            part = np.zeros([1, self._part], np.int32)
            count = len(ids[start : start + self._part])
            part[0, :count] = ids[start : start + self._part]
            found = self._prefill(
                token_ids=part,
                position=np.array([position + start], np.int32),
                last=np.array([count - 1], np.int32),
                **caches,
            )
            logits, caches = self._results(found)
        return logits, caches

    def _results(self, found: dict[str, np.ndarray]) -> tuple[np.ndarray, Caches]:
        return found["logits"][0], {name: found[f"new_{name}"] for name in self.empty_caches}
