"""The portable file `model.gguf` as an export."""

from pathlib import Path

from minigpt.config import TransformerConfig
from minigpt.targets.certification.exported import ExportedModel
from minigpt.targets.targets import STORED, ExportSource, Target, WeightsType
from minigpt.tokenizers import Tokenizer


class Gguf(Target):
    """A portable file; see docs/portable-file.md."""

    name = "gguf"
    is_folder = False
    weights = STORED

    def problem(self, config: TransformerConfig, tokenizer: Tokenizer) -> str | None:
        from minigpt.targets.gguf.writing import portable_problem

        return portable_problem(config, tokenizer)

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.gguf.run_file import write_run_file

        write_run_file(source.run, path, weights)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return beginning.startswith(b"GGUF")

    def open(self, path: Path) -> ExportedModel:
        from minigpt.targets.certification.readers.portable import PortableFile

        return PortableFile(path)
