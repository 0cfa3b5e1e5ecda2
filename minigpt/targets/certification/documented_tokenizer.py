"""Reads the tokenizer of formats whose users tokenize: `tokenizer.json`, or minigpt's own files."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minigpt.tokenizers import load_tokenizer

SETTINGS_FILE, TOKENIZER_FOLDER = "minigpt.json", "minigpt_tokenizer"


class DocumentedTokenizer:
    """The tokenizer among the files of an export.

    Args:
      files: the contents of the files by name; see `ExportSource.documents`.
    Raises:
      ValueError: a file is missing or damaged.
    Attributes:
      settings: the content of minigpt.json.
      packages: the packages that are used.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.settings: dict[str, Any] = json.loads(files.get(SETTINGS_FILE, b"{}"))
        if not {"weights", "max_len", "end_id"} <= self.settings.keys():
            raise ValueError(f"{SETTINGS_FILE} is missing or damaged")
        self._tokenizer: Any
        if "tokenizer.json" in files:
            import tokenizers

            self._tokenizer = tokenizers.Tokenizer.from_str(files["tokenizer.json"].decode())
            self._tokenizer.encode_special_tokens = True
            self.packages: tuple[str, ...] = ("tokenizers",)
        elif not any(name.startswith(TOKENIZER_FOLDER) for name in files):
            raise ValueError("tokenizer.json is missing")
        else:
            with tempfile.TemporaryDirectory() as folder:
                for name, data in files.items():
                    if name.startswith(TOKENIZER_FOLDER):
                        (Path(folder) / Path(name).name).write_bytes(data)
                self._tokenizer = load_tokenizer(Path(folder))
            self.packages = ()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        if self.packages:
            found = self._tokenizer.encode_batch(list(lines), add_special_tokens=False)
            return [encoding.ids for encoding in found]
        return [ids.tolist() for ids in self._tokenizer.encode_many(list(lines))]

    def continuation(self, prompt: Sequence[int], new: Sequence[int]) -> str:
        """Returns the text that new ids add. Decoded alone, they could lose a space or a cut character."""
        return self.decode([*prompt, *new])[len(self.decode(prompt)) :]

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids))
        return text
