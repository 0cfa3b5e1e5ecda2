"""Formats whose users tokenize and run the decoding loop: settings and tokenizer, and the loop itself."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import minigpt
from minigpt.targets.targets import ExportSource, Opened

if TYPE_CHECKING:
    from minigpt.tokenizers.base import Tokenizer

SETTINGS_FILE, TOKENIZER_FOLDER = "minigpt.json", "minigpt_tokenizer"
Caches = dict[str, np.ndarray]
# (token ids, position of the first, caches of those before) → the logits after each of them or after
# the last one, float32[T or 1, V]; and their caches.
Step = Callable[[Sequence[int], int, Caches], tuple[np.ndarray, Caches]]


def documents(source: ExportSource, weights: str) -> dict[str, bytes]:
    """Returns the files that describe a model: settings and tokenizer, name → content.

    `tokenizer.json` is for the tokenizers package; a tokenizer that it does not have is written as
    minigpt saves it.
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


def saved_tokenizer(files: Mapping[str, bytes]) -> "Tokenizer":
    """Returns the tokenizer whose files, as minigpt saves them, are in `TOKENIZER_FOLDER`."""
    from minigpt.tokenizers.base import Tokenizer

    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            if name.startswith(TOKENIZER_FOLDER):
                (Path(folder) / Path(name).name).write_bytes(data)
        return Tokenizer.load(Path(folder))


class DocumentedTokenizer:
    """The tokenizer among the files of an export.

    Args:
      files: the contents of the files by name; see `documents`.
    Raises:
      ValueError: a file is missing or damaged.
    Attributes:
      settings: the content of minigpt.json.
      packages: the packages that are used.
      decode: token ids → text.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.settings: dict[str, Any] = json.loads(files.get(SETTINGS_FILE, b"{}"))
        if not {"weights", "max_len", "end_id"} <= self.settings.keys():
            raise ValueError(f"{SETTINGS_FILE} is missing or damaged")
        self.packages: tuple[str, ...] = ()
        self._encode: Callable[[list[str]], Sequence[Any]]
        self.decode: Callable[[Sequence[int]], str]
        if "tokenizer.json" in files:
            import tokenizers

            given = tokenizers.Tokenizer.from_str(files["tokenizer.json"].decode())
            given.encode_special_tokens = True
            self.packages = ("tokenizers",)
            self._encode = partial(given.encode_batch, add_special_tokens=False)
            self.decode = given.decode
        else:
            if not any(name.startswith(TOKENIZER_FOLDER) for name in files):
                raise ValueError("tokenizer.json is missing")
            own = saved_tokenizer(files)
            self._encode, self.decode = own.encode_many, own.decode

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [list(getattr(ids, "ids", ids)) for ids in self._encode(list(lines))]

    def continuation(self, prompt: Sequence[int], new: Sequence[int]) -> str:
        """Returns the text that new ids add. Decoded alone, they could lose a space or a cut character."""
        return self.decode([*prompt, *new])[len(self.decode(prompt)) :]


def opened_step(
    step: Step, empty_caches: Caches, tokenizer: DocumentedTokenizer, package: str
) -> Opened:
    """Returns an export whose users run the decoding loop.

    Args:
      step, empty_caches: one pass, and the caches of an empty text.
      tokenizer: the tokenizer and the settings among the files.
      package: the package that runs the model.
    """
    settings = tokenizer.settings

    def logits(ids: np.ndarray) -> np.ndarray:
        rows, caches = step(ids.tolist(), 0, empty_caches)
        if len(rows) == len(ids):
            return rows
        # Token by token.
        caches, found = empty_caches, []
        for position, token in enumerate(ids.tolist()):
            row, caches = step([token], position, caches)
            found += list(row)
        return np.stack(found)

    def new_ids(prompt: Sequence[int], max_new_tokens: int) -> list[int]:
        ids, new = list(prompt) or [settings["end_id"]], list[int]()
        scores, caches = step(ids, 0, empty_caches)
        while True:
            last = scores[-1]
            last[settings["undrawable_ids"]] = -np.inf
            token = int(last.argmax())
            if token == settings["end_id"]:
                return new
            new.append(token)
            if len(new) == max_new_tokens:
                return new
            scores, caches = step([token], len(ids) + len(new) - 1, caches)

    return Opened(
        tokenizer.encode,
        lambda prompts, count: [new_ids(ids, count) for ids in tokenizer.encode(prompts)],
        (package, *tokenizer.packages),
        weights=settings["weights"],
        max_len=settings["max_len"],
        logits=lambda texts, sources: map(logits, texts),
        decode=tokenizer.continuation,
        gives_ids=True,
    )
