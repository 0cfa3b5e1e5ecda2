"""The portable file `model.gguf` as an export."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minigpt.config import SamplingConfig, TransformerConfig
from minigpt.config.sampling import ignored_settings
from minigpt.targets.targets import STORED, ExportSource, Opened, Target, WeightsType
from minigpt.tokenizers.base import Tokenizer


class Gguf(Target):
    """A portable file; see docs/portable-file.md."""

    name = "gguf"
    is_folder = False
    weights = STORED

    def problem(self, config: TransformerConfig, tokenizer: Tokenizer) -> str | None:
        from minigpt.targets.gguf.writing import portable_problem

        return portable_problem(config, tokenizer)

    def ignored_settings(self, sampling: SamplingConfig) -> list[str]:
        return ignored_settings(sampling.model_dump())

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.gguf.run_file import write_run_file

        # Without it, the weights are read from a checkpoint, which does not need TensorFlow.
        is_loaded = "model" in vars(source)
        values = source.model.get_weights() if is_loaded else None
        write_run_file(source.run, path, weights, values)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return beginning.startswith(b"GGUF")

    def open(self, path: Path) -> Opened:
        from minigpt.targets.gguf.text_model import PortableTextModel, load_portable

        model = load_portable(path)

        def encode(lines: Sequence[str]) -> list[list[int]]:
            return [model.tokenizer.encode(line).tolist() for line in lines]

        def continue_greedily(prompts: Sequence[str], max_new_tokens: int) -> list[str]:
            if isinstance(model, PortableTextModel):
                return model.generate(list(prompts), max_new_tokens, temperature=0.0)
            return model.translate(list(prompts), max_new_tokens=max_new_tokens)

        def answer(questions: Sequence[str], max_new_tokens: int) -> list[str]:
            assert isinstance(model, PortableTextModel)
            return [model.chat(text, max_new_tokens, temperature=0.0) for text in questions]

        opened = Opened(encode, continue_greedily, ("wasmtime",), model.weights, model.max_len)
        if not isinstance(model, PortableTextModel):
            return opened  # The engine translates, and does not score translations.
        score = model.logits
        return replace(
            opened,
            logits=lambda texts, _: (score(ids[None])[0] for ids in texts),
            learned_steps=model.learned_steps,
            answer=answer if model.tokenizer.chat else None,
        )
