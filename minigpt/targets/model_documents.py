"""Formats whose users tokenize and run the decoding loop: one pass, settings and tokenizer, the loop."""

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
    from minigpt.models import GPT
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


class CachedStep:
    """A GPT whose inputs are token ids, their position and the caches.

    Block i has the caches `key_i`, float32[B, G, max_len, K], and `value_i`, float32[B, G, max_len, U],
    with G heads for keys and values. With convolutions it also has `attention_input_i` and `ff_input_i`,
    float32[B, 1, max_len, D]; with n-grams, the model has `ids_0`, float32[B, 1, max_len, 1]. The cache of
    an empty text is zeros. The outputs `new_key_i` and so on are the caches of the next call.

    Its weights are used in float32. `cache_names` has the order of `empty_caches`.
    """

    def __init__(self, model: "GPT") -> None:
        from minigpt.targets.opened_keras import in_float32

        self.model = in_float32(model)
        parts = ["key", "value"]
        parts += ["attention_input", "ff_input"] * (model.config.convolution > 0)
        self.cache_names = ["ids_0"] * bool(model.config.ngrams)
        self.cache_names += [f"{part}_{i}" for i in range(len(model.blocks)) for part in parts]

    def signature(self, rows: int | None, tokens: int | None) -> list[Any]:
        """Returns the `tf.TensorSpec` of each input of `step`; None for sizes that are not fixed."""
        import tensorflow as tf

        caches = tf.nest.flatten(self.model.empty_caches(1))
        return [
            tf.TensorSpec([rows, tokens], tf.int32, "token_ids"),
            tf.TensorSpec([rows], tf.int32, "position"),
            *(
                tf.TensorSpec([rows, *cache.shape[1:]], tf.float32, name)
                for name, cache in zip(self.cache_names, caches, strict=True)
            ),
        ]

    def step(self, token_ids: Any, position: Any, *caches: Any, last: Any = None) -> dict[str, Any]:
        """Returns "logits", float32[B, T, V], or float32[B, V] with `last`, and the new caches.

        Args:
          token_ids: int32[B, T].
          position: int32[B], the position of the first of them in each text.
          *caches: those of the tokens before.
          last: int32[B], the column of each text that is scored, before padding; None for all.
        """
        import tensorflow as tf

        nested = tf.nest.pack_sequence_as(self.model.empty_caches(1), list(caches))
        latents, updated = self.model.call_with_cache(token_ids, nested, position)
        names = [f"new_{name}" for name in self.cache_names]
        new_caches = dict(zip(names, tf.nest.flatten(updated), strict=True))
        if last is not None:
            latents = tf.gather(latents, last[:, None], axis=1, batch_dims=1)
        logits = self.model.logits(latents)
        return {"logits": logits if last is None else logits[:, 0], **new_caches}


class DocumentedTokenizer:
    """The tokenizer among the files of an export, name → content; see `documents`.

    Attributes:
      settings: the content of minigpt.json.
      decode: token ids → text.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.settings: dict[str, Any] = json.loads(files[SETTINGS_FILE])
        self.packages: tuple[str, ...] = ()
        self._encode: Callable[[list[str]], Sequence[Any]]
        self.decode: Callable[[Sequence[int]], str]
        if any(name.startswith(TOKENIZER_FOLDER) for name in files):
            own = saved_tokenizer(files)
            self._encode, self.decode = own.encode_many, own.decode
        else:
            import tokenizers

            given = tokenizers.Tokenizer.from_str(files["tokenizer.json"].decode())
            given.encode_special_tokens = True
            self.packages = ("tokenizers",)
            self._encode = partial(given.encode_batch, add_special_tokens=False)
            self.decode = given.decode

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [list(getattr(ids, "ids", ids)) for ids in self._encode(list(lines))]

    def continuation(self, prompt: Sequence[int], new: Sequence[int]) -> str:
        """Returns the text that new ids add. Decoded alone, they could lose a space or a cut character."""
        return self.decode([*prompt, *new])[len(self.decode(prompt)) :]


def opened_step(
    step: Step, empty_caches: Caches, tokenizer: DocumentedTokenizer, package: str
) -> Opened:
    """Returns an export whose users run the decoding loop, with the package that runs a step."""
    settings = tokenizer.settings
    weights, max_len, end_id = (settings[name] for name in ("weights", "max_len", "end_id"))

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
        ids, new = list(prompt) or [end_id], list[int]()
        part, position, caches = ids, 0, empty_caches
        while len(new) < max_new_tokens:
            scores, caches = step(part, position, caches)
            last, position = scores[-1], position + len(part)
            last[settings["undrawable_ids"]] = -np.inf
            part = [int(last.argmax())]
            if part == [end_id]:
                break
            new += part
        return new

    return Opened(
        tokenizer.encode,
        lambda prompts, count: [new_ids(ids, count) for ids in tokenizer.encode(prompts)],
        (package, *tokenizer.packages),
        weights=weights,
        max_len=max_len,
        logits=lambda texts, sources: map(logits, texts),
        decode=tokenizer.continuation,
        gives_ids=True,
    )
