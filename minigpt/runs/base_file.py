"""A portable file as the model that training starts from: its settings, its tokenizer and its weights.

docs/portable-file.md describes the format. Imports TensorFlow only for the model.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
from gguf.quants import dequantize

from minigpt.config import Config, load_config
from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.runs.layout import bases, check_run, matches_checksum, model_path
from minigpt.runs.run import Run
from minigpt.runs.tensors import weights_of
from minigpt.storage.files import read_file
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.chat_format import ChatFormat
from minigpt.tokenizers.word import SPECIAL_TOKENS, WordTokenizer

if TYPE_CHECKING:
    from minigpt.models import GPT, EncoderDecoder


class BaseFile:
    """A portable file that minigpt wrote, read without the engine. It offers what a `Run` does.

    Attributes:
      keys: the values of the file by their names.
    Raises:
      UserError: the file cannot be read, is damaged, or is of another program.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            data = read_file(path)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}") from None
        if not data.startswith(b"GGUF") or b"minigpt.config" not in data:
            raise UserError(f"{path}: is not a portable file that minigpt wrote (model.gguf)")
        if not matches_checksum(data):
            problem = "damaged: its bytes do not match their checksum; copy or export it again"
            raise UserError(f"{path}: {problem}")
        with self._read_or_refuse():
            fields = _reader(path, path.stat().st_mtime_ns).fields
            self.keys = {name: field.contents() for name, field in fields.items()}

    @contextmanager
    def _read_or_refuse(self) -> Iterator[None]:
        """Turns what the content of a damaged file causes into one line."""
        try:
            yield
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            reason = (str(error).splitlines() or [""])[0]
            raise UserError(f"{self.path}: damaged: {type(error).__name__}: {reason}") from None

    @cached_property
    def tensors(self) -> dict[str, np.ndarray]:
        """The weights by their names, float32."""
        with self._read_or_refuse():
            tensors = _reader(self.path, self.path.stat().st_mtime_ns).tensors
            # Copies: the reader maps the file, which may change.
            return {t.name: np.array(dequantize(t.data, t.tensor_type)) for t in tensors}

    @cached_property
    def config(self) -> Config:
        """The settings of the model, of its tokenizer and of its texts; the others have their defaults."""
        with self._read_or_refuse():
            sections = json.loads(self.keys["minigpt.config"])
            kept = {name: sections[name] for name in ("model", "tokenizer", "sampling")}
        if kept["model"].get("kind") == "encoder_decoder":
            kept["data"] = {"source": "pairs", "paths": ["unknown"]}
        try:
            return load_config(kept)
        except UserError as error:
            raise UserError(*(f"{self.path}: {problem}" for problem in error.problems)) from None

    def load_tokenizer(self) -> Tokenizer:
        """Returns the tokenizer; a `UserError` if it cannot be made from the file."""
        kind = self.config.tokenizer.kind
        with self._read_or_refuse():
            if kind == "listed" or self.keys["minigpt.tokenizer.kind"] not in _TOKENIZERS:
                raise UserError(
                    f"{self.path}: tokenizer.kind = {kind!r}: cannot be made from a portable file; "
                    "start from its run"
                )
            return _tokenizer(self.keys)

    def load_model(self) -> "GPT | EncoderDecoder":
        """Returns the model; a `UserError` if the weights do not fit the settings."""
        # These import TensorFlow.
        from minigpt.models import build_model
        from minigpt.models.memory_estimate import check_model_fits
        from minigpt.models.state import assign

        config, vocab_size = self.config.model, self.load_tokenizer().vocab_size
        check_model_fits(config, vocab_size)
        model = build_model(config, vocab_size)
        with self._read_or_refuse():
            shapes = [tuple(weight.shape) for weight in model.weights]
            assign(model.weights, list(weights_of(config, self.tensors, shapes)))
        return model

    @contextmanager
    def as_run(self) -> Iterator[Run]:
        """Yields a run with the model, like an imported one, in a temporary folder."""
        with tempfile.TemporaryDirectory() as folder:
            content = self.config, self.load_tokenizer(), None, self.load_model()
            yield Run.create(Path(folder, self.path.stem), *content)


def run_or_file(model: str | Path | Run, argument: str = "run") -> Run | BaseFile:
    """Opens a run, a portable file, or the base with a name.

    Raises:
      UserError: there is none; the message names the argument.
    """
    if isinstance(model, Run):
        return model
    as_path("run", model)
    path = model_path(model)
    if path.is_file():
        try:
            return BaseFile(path)
        except UserError as error:
            problem = str(error).removeprefix(f"{path}: ")
            if path in bases().values():
                problem = f"{problem.partition(';')[0]}; install minigpt again, or remove {path}"
            raise UserError(ArgumentProblem(argument, str(model), problem)) from None
    check_run(path, argument, any_model=True)
    return Run(path)


# Training opens the model three times, and that takes a quarter of a second.
@lru_cache(maxsize=1)
def _reader(path: Path, _changed: int) -> gguf.GGUFReader:
    """Returns the reader of a file that was last changed at a time in nanoseconds."""
    return gguf.GGUFReader(path)


def _tokenizer(keys: dict[str, Any]) -> Tokenizer:
    """Returns the tokenizer of a file. KeyError, TypeError and ValueError mean damage."""
    tables = {
        name.removeprefix("minigpt.tokenizer."): value
        for name, value in keys.items()
        if name.startswith("minigpt.tokenizer.")
    }
    joined, ends = bytes(tables["pieces"]), tables["piece_ends"]
    pieces = [joined[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    chat = ChatFormat.of_state(json.loads(tables["chat"])) if "chat" in tables else None
    pieces = pieces[: len(pieces) - len(chat.added if chat else ())]
    tokenizer = _TOKENIZERS[tables["kind"]](pieces, tables)
    tokenizer.own_start_id = tables.get("start_id")
    return tokenizer if chat is None else tokenizer.with_chat(chat)


def _byte_pair(pieces: list[bytes], tables: dict[str, Any]) -> Tokenizer:
    return BytePairTokenizer.from_pieces(
        pieces, np.array(tables["ranks"]), bool(tables["lowercase"])
    )


def _character(pieces: list[bytes], tables: dict[str, Any]) -> Tokenizer:
    ids = np.array(tables["byte_ids"])
    trained = (ids >= 0) & ~np.isin(ids, tables["undrawable_ids"])
    characters = [piece.decode() for piece in pieces[ids.max() + 1 :]]
    seen = bytes(np.flatnonzero(trained).tolist())
    return CharacterTokenizer(characters, seen, bool(tables["lowercase"]))


def _word(pieces: list[bytes], tables: dict[str, Any]) -> Tokenizer:
    return WordTokenizer(pieces[SPECIAL_TOKENS:], bool(tables["lowercase"]))


_TOKENIZERS = {"byte_pair": _byte_pair, "character": _character, "word": _word}
