"""Measures tokenizing a text, and time and anonymous memory of training on texts of several sizes."""

import shutil
import threading
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from benchmarks.measuring import Context, Outcome, SteadySpeed, resident
from benchmarks.our_training import FIRST, UNDISTURBED, train
from benchmarks.sizes import DEFAULT
from benchmarks.texts import write_text
from benchmarks.watching import Finished


def text_path(context: Context, megabytes: int) -> Path:
    return context.work / f"text-{megabytes}.txt"


def text(context: Context, megabytes: int) -> Outcome:
    path = write_text(text_path(context, megabytes), 1_000_000 * megabytes)
    return {"value": path.stat().st_size}


def _config(context: Context, megabytes: int) -> Any:
    """Returns the default configuration with a long text; every paragraph is a document."""
    import minigpt

    overrides = [f"{key}={value}" for key, value in UNDISTURBED.items()]
    # All default settings, so that none is chosen for the length of the text.
    settings = minigpt.load_config("default").model_dump()
    settings["data"] = {
        "source": "files",
        "paths": [str(text_path(context, megabytes))],
        "document_separator": "\n\n",
        "val_fraction": settings["data"]["val_fraction"],
    }
    return minigpt.load_config(settings, overrides)


def prepare(context: Context, megabytes: int) -> Outcome:
    """Creates the text and a byte-pair tokenizer learned from its beginning."""
    text(context, megabytes)
    from minigpt.config import BytePairConfig
    from minigpt.tokenizers import learn_tokenizer

    with open(text_path(context, megabytes), encoding="ascii") as file:
        learned = learn_tokenizer([file.read(16_000_000)], BytePairConfig())
    learned.save(context.work / "byte-pairs")
    return {"value": learned.vocab_size}


def tokenize(context: Context, megabytes: int) -> Outcome:
    """Measures megabytes per second from a text file to a token store, with an existing vocabulary."""
    import os

    from minigpt.corpus.token_store import open_corpus
    from minigpt.tokenizers import load_tokenizer

    config = _config(context, megabytes)
    tokenizer = load_tokenizer(context.work / "byte-pairs")
    os.environ["MINIGPT_CACHE"] = cache = mkdtemp(dir=context.work)
    began = time.perf_counter()
    corpus = open_corpus(config.data, config.tokenizer, tokenizer)
    seconds = time.perf_counter() - began
    size = corpus.train.bytes + corpus.val.bytes
    tokens = corpus.train.tokens + corpus.val.tokens
    shutil.rmtree(cache)
    return {"value": size / seconds / 1e6, "tokens": tokens}


def grow(context: Context, megabytes: int, steps: int, seconds: float) -> Outcome:
    """Measures tokens per second of steady steps, and peak anonymous memory including the token store."""
    steady = SteadySpeed(DEFAULT.tokens_per_step, FIRST, steps, seconds)

    def observe(model: Any, step: int, event: str) -> None:
        if event == "step" and steady.seen(step):
            raise Finished

    memory = MostAnonymous()
    train(context, _config(context, megabytes), observe)
    return {"value": steady.tokens_per_second, "memory": memory.end(), "steps": steady.counted}


class MostAnonymous:
    """Samples RssAnon twenty times per second until `end`, which returns the maximum in bytes."""

    def __init__(self) -> None:
        self._most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._over.wait(0.05):
            self._most = max(self._most, resident("RssAnon"))

    def end(self) -> int:
        self._over.set()
        self._thread.join()
        return max(self._most, resident("RssAnon"))
