"""The engine in Python: an instance of engine.wasm with an open file. Needs NumPy and wasmtime only.

`Engine` continues one text at a time, `BatchEngine` several.
"""

import atexit
import base64
import functools
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import wasmtime

from minigpt.config.sampling import TextSettings
from minigpt.errors import UserError
from minigpt.runs.layout import matches_checksum

# The beginning of a page, and a part of its portable file.
_PAGE = b"<!doctype html"
_MODEL = re.compile(
    rb'<script type="text/plain" class="model" data-file="main"[^>]*>([^<]*)</script>'
)
_FILE = Path(__file__).parent / "engine" / "engine.wasm"
# The type numbers of GGUF.
_DTYPES = {0: "u1", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?"}
_STRING = 8
# Functions whose result has a sign. Others return addresses, which may be above 2 GB, sizes or booleans.
_SIGNED = {"add_drawn", "add_tokens", "learn"}
# Results of a step other than tokens.
ENDED, NOTHING_NEW = -1, -2
# The layout of `Choice` in choices.h.
_GUESSES = 10
_CHOICE = np.dtype(
    [("probability", "<f4"), ("ids", "<i4", _GUESSES), ("probabilities", "<f4", _GUESSES)]
)


class EngineError(UserError):
    """An error that the engine reports: the file is damaged, or a text does not fit into memory."""


@functools.cache
def _module() -> tuple[wasmtime.Engine, wasmtime.Module]:
    """Compiles the engine. wasmtime keeps the machine code: later processes need not compile it again."""
    config = wasmtime.Config()
    try:
        config.cache = True
    except wasmtime.WasmtimeError:  # There is no folder for it. The engine is compiled each time.
        config = wasmtime.Config()
    engine = wasmtime.Engine(config)
    # When Python ends, wasmtime's modules may be gone before its objects, which then print a traceback.
    atexit.register(engine.close)
    return engine, wasmtime.Module(engine, _FILE.read_bytes())


class Engine:
    """An instance of the engine with one open file: a portable file, or a page. It continues one text.

    `current` is the text that it continues, for its users.
    """

    current: object = None

    def __init__(self, path: Path) -> None:
        engine, module = _module()
        self._path = path  # For messages.
        self._store = wasmtime.Store(engine)
        weakref.finalize(self, self._store.close)
        self._exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        self._memory: Any = self._exports["memory"]
        try:
            address, self._size = self._load(path)
            # Before the engine brings the weights into another form in place.
            is_whole = matches_checksum(self._view(address, self._size))
            self._checked("open_file", address, self._size)
            self._checked("set_banned", 0, 0)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}") from None
        if not is_whole:
            problem = "damaged, its bytes do not match its checksum; copy or export it again"
            raise EngineError(f"{self._path}: {problem}")

    def _load(self, path: Path) -> tuple[int, int]:
        with path.open("rb") as file:
            if file.read(len(_PAGE)).lower() == _PAGE:
                return self._write(self._model_of(file.read()))
            file.seek(0)
            size = path.stat().st_size
            address: int = self._checked("allocate", size)
            # Directly into the engine's memory: large files are not copied.
            file.readinto(self._view(address, size).data)
        return address, size

    def _model_of(self, page: bytes) -> bytes:
        try:
            if parts := _MODEL.findall(page):
                return b"".join(map(base64.b64decode, parts))
        except ValueError:  # It is damaged, and no longer base64.
            pass
        expected = "should be a page that `minigpt export` wrote"
        raise EngineError(f"{self._path}: has no model; {expected}")

    def key(self, name: str) -> Any:
        """Returns the value of a key: a number, a string or an array; None if there is none."""
        with self._released():
            address = self._call("find_key", *self._write(name.encode()))
            if not address:
                return None
            _, _, kind, is_array, count, data, size = self._view(address, 28).view("<u4").tolist()
            content = self._view(data, size).copy()
        with suppress(UnicodeDecodeError, KeyError):
            if kind == _STRING and not is_array:
                return content.tobytes().decode()
            values = content.view(_DTYPES[kind])
            return values[:count] if is_array else values[0].item()
        raise EngineError(f"{self._path}: the value of the key {name} cannot be read")

    @property
    def weight_count(self) -> int:
        """The number of weights in the file."""
        count: int = self._call("weight_count")
        return count

    def encode(self, text: str) -> tuple[np.ndarray, int]:
        """Returns int32[T], and how many words or characters are not in the vocabulary."""
        with self._released():
            encoded = self._checked("encode_text", *self._write(text.encode()))
            address, count, unknown = self._view(encoded, 12).view("<u4").tolist()
            return self._view(address, 4 * count).view("<i4").copy(), unknown

    def set_sampling(self, settings: TextSettings, seed: int) -> None:
        """Sets how tokens are chosen; stop strings and max_new_tokens are not read."""
        self._call("set_sampling", *settings.numbers, seed)
        with self._released():
            self._checked("set_banned", *self._write_ids(settings.banned_tokens))

    def start(self, ids: Sequence[int] | np.ndarray, max_new_tokens: int, added: int = 0) -> None:
        """Starts the continuation of a text, whose last `added` ids count as new tokens."""
        self._start("start", ids, added, max_new_tokens)

    def start_translation(self, ids: Sequence[int] | np.ndarray, max_new_tokens: int) -> None:
        """Starts the translation of a source, end token included."""
        self._start("start_translation", ids, max_new_tokens)

    def _start(self, function: str, ids: Sequence[int] | np.ndarray, *counts: int) -> None:
        self._call("finish")
        self._checked(function, *self._write_ids(ids), *counts)

    def adjusted_logits(self, vocab_size: int) -> np.ndarray:
        """Returns float32[V], the logits of the next token after penalties and bans."""
        self._logits = self._checked("adjusted_logits")
        return self._view(self._logits, 4 * vocab_size).view("<f4").copy()

    def add_tokens(self, count: int, logits: np.ndarray | None = None) -> list[int]:
        """Adds up to `count` tokens; fewer if the text ends. Returns the ids of the new ones.

        With logits, float32[V], one token is drawn from them; the call before is `adjusted_logits`.
        """
        if logits is not None:
            self._view(self._logits, logits.nbytes)[:] = logits.view("u1")
        added = self._call("add_tokens", count) if logits is None else self._call("add_drawn")
        if added < 0:
            raise EngineError(f"{self._path}: {self._message()}")
        end = self._call("new_tokens_end")
        return self._view(end - 4 * added, 4 * added).view("<i4").tolist()

    def score(self, ids: Sequence[int] | np.ndarray, vocab_size: int) -> np.ndarray:
        """Scores every next token of a text: int32[T], T ≤ max_len → float32[T, V]."""
        scores = self._read_text("score", ids, 4 * len(ids) * vocab_size).view("<f4")
        return scores.reshape(len(ids), vocab_size)

    def mean_latent(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Returns float32[D], the mean over int32[T], 1 ≤ T ≤ max_len, of the latents, the head's input."""
        embed_dim = self.key("minigpt.model.embed_dim")
        return self._read_text("mean_latent", ids, 4 * embed_dim).view("<f4")

    @contextmanager
    def learning(
        self,
        ids: Sequence[int] | np.ndarray,
        length: int,
        batch_size: int,
        seed: int,
        steps: int = 0,
        learning_rate: float = 0.0,
    ) -> Iterator[tuple[int, Callable[[], float]]]:
        """Learns from a text, int32[T]; the arguments are those of `PortableTextModel.learn`, 0 for None.

        Yields:
          The number of steps, and a function that makes one of them: it returns the mean loss of the
          windows before the step, in nats. It raises a `UserError` if the loss is not finite; the weights
          are those of the step before.
        """
        self._call("finish")
        numbers = length, batch_size, seed, steps, learning_rate
        steps = self._checked("open_learning", *self._write_ids(ids), *numbers)

        def step() -> float:
            loss: float = self._call("learn")
            if loss < 0:
                raise EngineError(f"{self._path}: {self._message()}")
            return loss

        try:
            yield steps, step
        finally:
            self._call("close_learning")

    def file(self) -> bytes:
        """Returns the file with the weights that the model has now; a model that translates has none."""
        with self._released():
            return self._view(self._checked("current_file"), self._size).tobytes()

    def _read_text(self, function: str, ids: Sequence[int] | np.ndarray, size: int) -> np.ndarray:
        """Returns what a function makes of a whole text: uint8[size]."""
        self._call("finish")
        found = self._view(self._checked(function, *self._write_ids(ids)), size).copy()
        self._call("finish")
        return found

    def _call(self, name: str, *arguments: Any) -> Any:
        function: Any = self._exports[name]
        result = function(self._store, *arguments)
        # WebAssembly's integers have no sign; addresses above 2 GB would be negative.
        return result if result is None or name in _SIGNED else result & 0xFFFFFFFF

    def _checked(self, name: str, *arguments: Any) -> Any:
        result = self._call(name, *arguments)
        if not result:
            raise EngineError(f"{self._path}: {self._message()}")
        return result

    def _message(self) -> str:
        address = self._call("error_message")
        message = self._view(address, 512).tobytes()
        return message[: message.index(0)].decode("utf-8", "replace")

    @contextmanager
    def _released(self) -> Iterator[None]:
        """Frees at the end what the block has allocated."""
        mark = self._call("memory_mark")
        try:
            yield
        finally:
            self._call("release_to", mark)

    def _write(self, data: bytes) -> tuple[int, int]:
        address: int = self._checked("allocate", len(data))
        self._view(address, len(data))[:] = np.frombuffer(data, np.uint8)
        return address, len(data)

    def _write_ids(self, ids: Sequence[int] | np.ndarray) -> tuple[int, int]:
        return self._write(np.asarray(ids, "<i4").tobytes())[0], len(ids)

    def _view(self, address: int, size: int) -> np.ndarray:
        """uint8[size], the memory at an address. Valid until the engine is called: its memory may move."""
        end = self._memory.data_len(self._store)
        memory = np.ctypeslib.as_array(self._memory.data_ptr(self._store), (end,))
        return memory[address : address + size]


@dataclass(frozen=True)
class Choice:
    """The probabilities from which a token was chosen: that of the token, and those of at most ten `ids`.

    They are those of the model: temperature 1, nothing banned. The most probable token is the first.
    """

    probability: float
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]


class BatchEngine(Engine):
    """An engine that continues several texts together. Texts begin and end at any time.

    A text gets the same tokens, whatever the engine continues together with it.
    """

    def open_batch(self, slots: int, most_tokens: int) -> None:
        """Takes the memory for texts of up to `most_tokens` tokens: prompt, at least 1, and new tokens."""
        self._checked("open_batch", slots, most_tokens)
        self._slots = slots

    def start_slot(
        self,
        slot: int,
        ids: Sequence[int] | np.ndarray,
        settings: TextSettings,
        seed: int,
        *,
        biases: Mapping[int, float] | None = None,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        records: bool = False,
    ) -> None:
        """Starts a text in place of the one that is in a slot.

        Args:
          slot, ids, seed: the number of the slot, the prompt, and the seed of the draws.
          settings: how the text is continued; without stop strings and beams.
          biases: token → what is added to its logit; -inf bans it.
          frequency_penalty: subtracted from the logit of a token for each time it was added.
          presence_penalty: subtracted from the logit of a token that was added.
          records: whether `choice` is called.
        """
        numbers = settings.max_new_tokens, *settings.numbers, seed
        added = {**(biases or {}), **dict.fromkeys(settings.banned_tokens, -np.inf)}
        with self._released():
            self._checked("start_slot", slot, *self._write_ids(ids), *numbers)
            if added:
                address, count = self._write_ids(list(added))
                values, _ = self._write(np.array(list(added.values()), "<f4").tobytes())
                self._checked("bias_slot", slot, address, values, count)
        self._checked("penalize_slot", slot, frequency_penalty, presence_penalty)
        if records:
            self._checked("record_slot", slot)

    def step(self) -> list[int]:
        """Adds a token to each text whose prompt has been read, and reads a part of the other prompts.

        Returns for each slot the new token, `ENDED`, or `NOTHING_NEW`.
        """
        address = self._checked("step_batch")
        return self._view(address, 4 * self._slots).view("<i4").tolist()

    def choice(self, slot: int) -> Choice:
        """Returns the probabilities from which the newest token of a text was chosen."""
        address = self._checked("slot_choice", slot)
        ((probability, ids, probabilities),) = (
            self._view(address, _CHOICE.itemsize).view(_CHOICE).tolist()
        )
        count = sum(i >= 0 for i in ids)  # A small vocabulary has fewer tokens.
        return Choice(probability, tuple(ids[:count]), tuple(probabilities[:count]))

    def close_slot(self, slot: int) -> None:
        """Ends the text in a slot."""
        self._call("close_slot", slot)
