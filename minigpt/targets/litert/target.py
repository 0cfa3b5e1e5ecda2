"""LiteRT as an export."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from minigpt.config import TransformerConfig
from minigpt.targets.opened import Caches, Opened, opened_step
from minigpt.targets.targets import STORED, ExportSource, Target, WeightsType, gpt_problem
from minigpt.tokenizers import Tokenizer


class LiteRT(Target):
    """One file for phones and small devices; see docs/litert.md."""

    name = "litert"
    is_folder = False
    weights = STORED
    packages = ("ai_edge_litert", "tokenizers")

    def problem(self, config: TransformerConfig, tokenizer: Tokenizer) -> str | None:
        return gpt_problem(config)

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.litert.writing import write_litert

        write_litert(source, path, weights)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return beginning[4:8] == b"TFL3"

    def open(self, path: Path) -> Opened:
        from ai_edge_litert.interpreter import Interpreter

        from minigpt.targets.documents import DocumentedTokenizer

        interpreter = Interpreter(model_path=str(path))
        prefill, decode = map(interpreter.get_signature_runner, ("prefill", "decode"))
        inputs = prefill.get_input_details()
        size = int(inputs["token_ids"]["shape"][1])
        empty_caches = {
            name: np.zeros(details["shape"], details["dtype"])
            for name, details in inputs.items()
            if name.startswith(("key_", "value_"))
        }
        with zipfile.ZipFile(path) as archive:
            tokenizer = DocumentedTokenizer(
                {name: archive.read(name) for name in archive.namelist()}
            )

        def step(ids: Sequence[int], position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
            for start in range(0, len(ids), size):
                place = np.array([position + start], np.int32)
                if len(ids) == 1:
                    found = decode(token_ids=np.array([ids], np.int32), position=place, **caches)
                else:
                    part = np.zeros([1, size], np.int32)
                    count = len(ids[start : start + size])
                    part[0, :count] = ids[start : start + size]
                    last = np.array([count - 1], np.int32)
                    found = prefill(token_ids=part, position=place, last=last, **caches)
                caches = {name: found[f"new_{name}"] for name in empty_caches}
            return found["logits"][0], caches

        return opened_step(step, empty_caches, tokenizer, "ai-edge-litert")
