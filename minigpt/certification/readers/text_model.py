"""Reads what minigpt opens as a model with a tokenizer: the source, Keras files, Hugging Face folders."""

import tempfile
import zipfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np

from minigpt.certification.documented_tokenizer import TOKENIZER_FOLDER
from minigpt.certification.exported import ExportedModel
from minigpt.config import sampling_config
from minigpt.generation import Decoder
from minigpt.generation.step_models import CachedGPT
from minigpt.huggingface.importing import import_run
from minigpt.inference.samples import generate
from minigpt.inference.translation_model import TranslationModel
from minigpt.models import GPT, EncoderDecoder
from minigpt.tokenizers import Tokenizer, load_tokenizer


class OpenedModel(ExportedModel):
    """A model and its tokenizer in this process.

    Args:
      model: the model.
      tokenizer: its tokenizer.
    """

    packages: tuple[str, ...] = ("keras", "tensorflow")

    def __init__(self, model: GPT | EncoderDecoder, tokenizer: Tokenizer) -> None:
        self._model, self._tokenizer = model, tokenizer

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [ids.tolist() for ids in self._tokenizer.encode_many(list(lines))]

    def logits(self, token_ids: np.ndarray, source_ids: np.ndarray | None = None) -> np.ndarray:
        inputs: Any = token_ids[None]
        if source_ids is not None:
            inputs = (source_ids[None], np.array([len(source_ids)], np.int32), inputs)
        found: np.ndarray = self._model(inputs).numpy()[0]
        return found

    def continue_greedily(self, prompts: Sequence[str], max_new_tokens: int) -> list[str]:
        if isinstance(self._model, EncoderDecoder):
            translator = TranslationModel(self._model, self._tokenizer)
            return translator.translate(list(prompts), max_new_tokens=max_new_tokens)
        sampling = sampling_config(max_new_tokens=max_new_tokens, temperature=0.0)
        seeds = [0] * len(prompts)
        samples = generate(self._decoder, self._tokenizer, list(prompts), seeds, sampling, 1)
        return [sample.text for sample in samples]

    @cached_property
    def _decoder(self) -> Decoder:
        # The texts are generated once: compiling the loop would take longer.
        assert isinstance(self._model, GPT)
        step_model = CachedGPT(self._model, jit_compile=False)
        return Decoder(step_model, self._tokenizer.end_id, self._tokenizer.undrawable_ids)


class KerasFile(OpenedModel):
    """A `.keras` file, opened by `keras.models.load_model`, with the tokenizer inside."""

    def __init__(self, path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            # Keras opens only names that end so.
            named = Path(folder) / "model.keras"
            named.symlink_to(path.absolute())
            model = keras.models.load_model(named)
            with zipfile.ZipFile(path) as archive:
                names = [n for n in archive.namelist() if n.startswith(TOKENIZER_FOLDER + "/")]
                for name in names:
                    (Path(folder) / Path(name).name).write_bytes(archive.read(name))
            tokenizer = load_tokenizer(Path(folder))
        super().__init__(model, tokenizer)


class HuggingFaceFolder(OpenedModel):
    """A folder for transformers, opened by `minigpt.import_run`."""

    packages = ("safetensors", "tensorflow")

    def __init__(self, path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run = import_run(path, Path(folder) / "run")
            super().__init__(run.load_model(), run.load_tokenizer())
