"""Reads what minigpt opens as a model with a tokenizer: the source, Keras files, Hugging Face folders."""

import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import keras
import numpy as np

from minigpt.config import sampling_config
from minigpt.generation.decoding import Decoder
from minigpt.generation.samples import generate
from minigpt.generation.step_models import CachedGPT
from minigpt.generation.translation_model import TranslationModel
from minigpt.models import GPT, EncoderDecoder
from minigpt.targets.certification.exported import ExportedModel
from minigpt.targets.documents import TOKENIZER_FOLDER
from minigpt.targets.huggingface import importing
from minigpt.tokenizers import Tokenizer, load_tokenizer

# Of the logits that are computed at a time.
_BATCH_BYTES = 2**27


class OpenedModel(ExportedModel):
    """A model and its tokenizer in this process.

    Args:
      model: the model.
      tokenizer: its tokenizer.
    """

    packages: tuple[str, ...] = ("keras", "tensorflow")

    def __init__(self, model: GPT | EncoderDecoder, tokenizer: Tokenizer) -> None:
        self._model, self._tokenizer = model, tokenizer
        self.max_len = model.max_len

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [ids.tolist() for ids in self._tokenizer.encode_many(list(lines))]

    def decode_new(self, prompt_ids: Sequence[int], new_ids: Sequence[int]) -> str:
        """Returns the text of the tokens that continue a prompt, without the end token."""
        return self._tokenizer.continuation(
            np.array(prompt_ids, np.int32), np.array(new_ids, np.int32)
        )

    def logits(self, token_ids: np.ndarray, source_ids: np.ndarray | None = None) -> np.ndarray:
        (found,) = self.all_logits([token_ids], [source_ids])
        return found

    def all_logits(
        self, texts: Sequence[np.ndarray], sources: Sequence[np.ndarray | None]
    ) -> Iterator[np.ndarray]:
        longest = max(map(len, texts), default=1)
        # In batches: a call without a graph takes 0.2 s for eight blocks, whatever it computes.
        rows = max(1, _BATCH_BYTES // (4 * longest * self._model.vocab_size))
        for start in range(0, len(texts), rows):
            batch = texts[start : start + rows]
            # The model is causal: no token sees the padding after it.
            inputs: Any = _padded(batch)
            if sources[start] is not None:
                read = [ids for ids in sources[start : start + rows] if ids is not None]
                inputs = (_padded(read), np.array([len(ids) for ids in read], np.int32), inputs)
            logits = self._model(inputs).numpy()
            yield from (row[: len(ids)] for row, ids in zip(logits, batch, strict=True))

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
        return Decoder(step_model, self._tokenizer.end_id, self._tokenizer.never_sampled_ids)


def _padded(texts: Sequence[np.ndarray]) -> np.ndarray:
    """Returns int32[B, T] of texts of up to T tokens."""
    padded = np.zeros([len(texts), max(map(len, texts))], np.int32)
    for row, ids in zip(padded, texts, strict=True):
        row[: len(ids)] = ids
    return padded


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
        # It logs which folder it reads: here an unfinished one.
        quiet = patch.object(importing.logger, "disabled", True)
        with quiet, tempfile.TemporaryDirectory() as folder:
            run = importing.import_run(path, Path(folder) / "run")
            super().__init__(run.load_model(), run.load_tokenizer())
