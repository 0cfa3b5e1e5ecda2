"""The folder for Hugging Face's `transformers` as an export."""

import tempfile
from pathlib import Path

from minigpt.config import TransformerConfig
from minigpt.targets.opened import Opened
from minigpt.targets.targets import ExportSource, Target, WeightsType, gpt_problem
from minigpt.tokenizers import Tokenizer


class HuggingFace(Target):
    """A folder for `from_pretrained`; see `write_folder`."""

    name = "huggingface"
    is_folder = True

    def problem(self, config: TransformerConfig, tokenizer: Tokenizer) -> str | None:
        from minigpt.targets.huggingface.architectures import export_problems

        return gpt_problem(config) or "; ".join(export_problems(config, tokenizer)) or None

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.models import GPT
        from minigpt.targets.huggingface.writing import write_folder

        assert isinstance(source.model, GPT)
        write_folder(source.model, source.tokenizer, path, source.run.config.sampling)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return (path / "model.safetensors").is_file()

    def open(self, path: Path) -> Opened:
        from unittest.mock import patch  # `minigpt --help` imports this file.

        from minigpt.targets.huggingface import importing
        from minigpt.targets.opened_model import opened_model

        # It logs which folder it reads: here an unfinished one.
        quiet = patch.object(importing.logger, "disabled", True)
        with quiet, tempfile.TemporaryDirectory() as folder:
            run = importing.import_run(path, Path(folder) / "run")
            return opened_model(
                run.load_model(), run.load_tokenizer(), ("safetensors", "tensorflow")
            )
