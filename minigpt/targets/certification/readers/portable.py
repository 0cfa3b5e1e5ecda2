"""Reads portable files and pages with the engine."""

import base64
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from minigpt.errors import UserError
from minigpt.targets.certification.exported import ExportedModel
from minigpt.targets.gguf.loading import load_portable
from minigpt.targets.gguf.text_model import PortableTextModel

_MODEL = re.compile(
    r'<script type="text/plain" class="model" data-file="main"[^>]*>([^<]*)</script>'
)


class PortableFile(ExportedModel):
    """A GGUF file."""

    packages = ("wasmtime",)

    def __init__(self, path: Path) -> None:
        self._model = load_portable(path)
        self.weights, self.max_len = self._model.weights, self._model.max_len
        # The engine translates, and does not score translations.
        self.has_logits = isinstance(self._model, PortableTextModel)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [self._model.tokenizer.encode(line).tolist() for line in lines]

    def logits(self, token_ids: np.ndarray, source_ids: np.ndarray | None = None) -> np.ndarray:
        assert isinstance(self._model, PortableTextModel)
        return self._model.logits(token_ids[None])[0]

    def continue_greedily(self, prompts: Sequence[str], max_new_tokens: int) -> list[str]:
        if isinstance(self._model, PortableTextModel):
            return self._model.generate(list(prompts), max_new_tokens, temperature=0.0)
        return self._model.translate(list(prompts), max_new_tokens=max_new_tokens)


class Page(PortableFile):
    """A web page. Its model is read by the same engine, which the page holds too."""

    def __init__(self, path: Path) -> None:
        parts = _MODEL.findall(path.read_text(encoding="utf-8"))
        if not parts:
            raise UserError(f"{path}: has no model; should be a page that `minigpt export` wrote")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.gguf"
            file.write_bytes(b"".join(map(base64.b64decode, parts)))
            try:
                super().__init__(file)
            except UserError as error:
                problem = str(error).removeprefix(f"{file}: ")
                raise UserError(f"{path}: its model: {problem}") from None
