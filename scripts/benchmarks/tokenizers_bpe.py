"""Measures byte-level BPE of the `tokenizers` package, as in GPT-2, on all cores."""

import os
import time
from typing import Any

from benchmarks.measuring import Context, Outcome
from benchmarks.our_corpus import text_path
from benchmarks.sizes import DEFAULT

# Texts encoded in one call: enough work for all cores.
_BYTES_AT_ONCE = 16_000_000


def prepare(context: Context, megabytes: int) -> Outcome:
    """Learns a vocabulary of the default configuration's size from the same text as minigpt."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=DEFAULT.vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<end>"],
        show_progress=False,
    )
    with open(text_path(context, megabytes), encoding="ascii") as file:
        tokenizer.train_from_iterator(file.read(16_000_000).split("\n\n"), trainer)
    tokenizer.save(str(context.work / "tokenizers.json"))
    return {"value": tokenizer.get_vocab_size()}


def tokenize(context: Context, megabytes: int) -> Outcome:
    """Measures megabytes per second from a text file to a flushed file of uint16 ids."""
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    os.environ["RAYON_NUM_THREADS"] = str(os.cpu_count())
    import numpy as np
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(context.work / "tokenizers.json"))
    path = text_path(context, megabytes)
    tokens = 0
    began = time.perf_counter()
    documents = path.read_text(encoding="utf-8").split("\n\n")
    each = max(1, len(documents) * _BYTES_AT_ONCE // max(1, path.stat().st_size))
    end = tokenizer.token_to_id("<end>")
    with open(context.work / "tokenizers.bin", "wb") as file:
        for first in range(0, len(documents), each):
            for encoded in tokenizer.encode_batch_fast(documents[first : first + each]):
                ids = np.array([*encoded.ids, end], np.uint16)
                tokens += len(ids)
                file.write(ids.tobytes())
        file.flush()
        os.fsync(file.fileno())
    seconds = time.perf_counter() - began
    return {"value": path.stat().st_size / seconds / 1e6, "tokens": tokens}
