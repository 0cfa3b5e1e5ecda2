"""LiteRT as an export."""

from pathlib import Path

from minigpt.config import TransformerConfig
from minigpt.targets.certification.exported import ExportedModel
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

    def open(self, path: Path) -> ExportedModel:
        from minigpt.targets.certification.readers.litert import LiteRTFile

        return LiteRTFile(path)
