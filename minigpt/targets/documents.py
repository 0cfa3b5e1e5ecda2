"""Settings and tokenizer in the files of formats whose users tokenize and run the decoding loop.

The tokenizer is `tokenizer.json`, or the files that minigpt saves.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import minigpt
from minigpt.targets.targets import ExportSource
from minigpt.tokenizers import load_tokenizer

SETTINGS_FILE, TOKENIZER_FOLDER = "minigpt.json", "minigpt_tokenizer"


def documents(source: ExportSource, weights: str) -> dict[str, bytes]:
    """Returns the files that describe a model: settings and tokenizer.

    `tokenizer.json` is for the tokenizers package; a tokenizer that it does not have is written as
    minigpt saves it.

    Args:
      source: the run.
      weights: how the matrices of the export are stored.
    """
    # The library of GGUF takes time to import.
    from minigpt.targets.gguf.run_file import best_facts
    from minigpt.targets.gguf.writing import public_settings
    from minigpt.targets.huggingface.tokenizer_export import export_problem, tokenizer_files

    model, tokenizer = source.model, source.tokenizer
    files = {f"{TOKENIZER_FOLDER}/{name}": data for name, data in tokenizer.saved_files().items()}
    if export_problem(tokenizer) is None:
        text = tokenizer_files(tokenizer, model.max_len)["tokenizer.json"]
        files = {"tokenizer.json": text.encode()}
    settings = {
        "format": 1,
        "minigpt": minigpt.__version__,
        "weights": weights,
        "max_len": model.max_len,
        "vocab_size": model.vocab_size,
        "end_id": tokenizer.end_id,
        "undrawable_ids": sorted(tokenizer.never_sampled_ids),
        "config": public_settings(source.run.config),
        "training": best_facts(source.run),
    }
    return {SETTINGS_FILE: (json.dumps(settings, indent=1) + "\n").encode(), **files}


class DocumentedTokenizer:
    """The tokenizer among the files of an export.

    Args:
      files: the contents of the files by name; see `documents`.
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
