"""Models in the folder format of the Hugging Face package `transformers`, written and imported."""

from pathlib import Path

from minigpt.config import TransformerConfig
from minigpt.targets.targets import ExportSource, Opened, Target, WeightsType
from minigpt.tokenizers.base import Tokenizer


class HuggingFace(Target):
    """A folder for `from_pretrained`; see `write_folder`."""

    name = "huggingface"
    is_folder = True
    only_gpt = True

    def problem(self, config: TransformerConfig, tokenizer: Tokenizer) -> str | None:
        from minigpt.targets.huggingface.architectures import architecture_of_model
        from minigpt.targets.huggingface.tokenizer_export import export_problem

        if problem := super().problem(config, tokenizer):
            return problem
        problems = architecture_of_model(config).export_problems(config)
        return "; ".join(filter(None, [*problems, export_problem(tokenizer)])) or None

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.huggingface.folders import write_folder

        write_folder(source.model, source.tokenizer, path, source.run.config.sampling)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return (path / "model.safetensors").is_file()

    def open(self, path: Path) -> Opened:
        from minigpt.targets.huggingface.folders import read_folder
        from minigpt.targets.opened_keras import opened_keras

        model, tokenizer, _ = read_folder(path)
        return opened_keras(model, tokenizer, ("safetensors", "tensorflow"))
