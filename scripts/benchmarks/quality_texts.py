"""The texts of the quality cases, split once by minigpt, so that both sides train on the same part.

Each text is a folder `quality-NAME` in the work folder. Characters: `text.txt`, `train.txt` and `val.txt`.
Token ids: `train.npy`, `val.npy` and `facts.json`.
"""

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.held_out import HeldOut, beginnings, cut_documents, windows
from benchmarks.measuring import Context, Outcome
from benchmarks.sizes import WORDS

# Bytes of reviews, if there is no other prose.
_PROSE_BYTES = 500_000
# The words of the held-out reviews that are scored: enough for an error of 0.01 nats.
HELD_OUT_REVIEWS = 800


def folder(context: Context, name: str) -> Path:
    return context.work / f"quality-{name}"


def prepare_shakespeare(context: Context, path: str | None) -> Outcome:
    """Splits tiny Shakespeare; it is downloaded if `path` is None."""
    if path is None:
        from minigpt.config import SHAKESPEARE_SHA256, SHAKESPEARE_URL
        from minigpt.storage.downloads import download

        path = str(download(SHAKESPEARE_URL, SHAKESPEARE_SHA256))
    text = _new_folder(context, "shakespeare") / "text.txt"
    shutil.copyfile(path, text)
    return _split(text, with_file("shakespeare_character", text).data)


def prepare_prose(context: Context, path: str | None, imdb: str | None) -> Outcome:
    """Splits a text as `minigpt train --text` does: a file, or the beginning of the reviews."""
    text = _new_folder(context, "prose") / "text.txt"
    if path is not None:
        shutil.copyfile(path, text)
    else:
        assert imdb is not None
        write_reviews(text, imdb)
    from minigpt.corpus.fit import config_for_text

    return _split(text, config_for_text([str(text)]).data)


def _new_folder(context: Context, name: str) -> Path:
    path = folder(context, name)
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_reviews(path: Path, archive: str) -> None:
    """Writes the first 500 KB of the reviews of the archive."""
    from minigpt.corpus.sources import open_source

    size = 0
    with open(path, "wb") as file:
        for piece in open_source(with_file("imdb_keras_example", archive).data).pieces():
            review = piece.text + b"\n\n"
            size += len(review)
            if size > _PROSE_BYTES:
                break
            file.write(review)


def _split(text: Path, data: Any) -> Outcome:
    from minigpt.corpus.documents import Piece, ingest
    from minigpt.corpus.split import split_corpus

    documents = ingest([Piece(text.read_bytes(), True)])
    for name, part in zip(("train", "val"), split_corpus(documents, data), strict=True):
        with open(text.parent / f"{name}.txt", "w", encoding="utf-8", newline="") as file:
            file.writelines(piece for piece, _ in part.pieces())
    return {"value": documents.bytes}


def read_characters(context: Context, name: str) -> tuple[str, str]:
    """Returns the training and the held-out part of a text."""
    files = [folder(context, name) / f"{part}.txt" for part in ("train", "val")]
    train, val = (file.read_bytes().decode() for file in files)
    return train, val


def with_file(name: str, path: str | Path, overrides: Sequence[str] = ()) -> Any:
    """Returns a configuration with a local file in place of its download.

    Args:
      name: the name of a shipped configuration.
      path: the file; its checksum may be another one.
      overrides: settings, as `SECTION.KEY=VALUE`.
    """
    import minigpt

    with open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    url = Path(path).absolute().as_uri()
    return minigpt.load_config(name, [f"data.url={url}", f"data.sha256={sha256}", *overrides])


def prepare_words(context: Context, imdb: str) -> Outcome:
    """Makes the ids of the reviews: the 20,000 most frequent words, lower-cased, marks as words."""
    from minigpt.corpus.token_store import open_corpus

    config = with_file("imdb_keras_example", imdb)
    corpus = open_corpus(config.data, config.tokenizer)
    path = _new_folder(context, "words")
    end = corpus.tokenizer.end_id
    train = cut_documents(corpus.train.ids, WORDS.length, end)
    val = cut_documents(corpus.val.ids, WORDS.length, end)[:HELD_OUT_REVIEWS]
    np.save(path / "train.npy", train)
    np.save(path / "val.npy", val)
    facts = {
        "settings": {
            "data": config.data.model_dump(),
            "tokenizer": config.tokenizer.model_dump(exclude_none=True),
        },
        "vocab_size": corpus.tokenizer.vocab_size,
        "fingerprint": corpus.fingerprint,
    }
    (path / "facts.json").write_text(json.dumps(facts))
    return {"value": len(train)}


def prepare_stories(context: Context) -> Outcome:
    """Makes the ids of the stories in the default configuration, and notes its sizes for the peers."""
    import minigpt
    from minigpt.corpus.token_store import open_corpus

    config = minigpt.load_config("default")
    corpus = open_corpus(config.data, config.tokenizer)
    path = _new_folder(context, "stories")
    for name, part in (("train", corpus.train), ("val", corpus.val)):
        np.save(path / f"{name}.npy", np.asarray(part.ids).astype(np.int32))
    model = config.model
    facts = {
        "bytes": corpus.val.bytes,
        "sizes": {
            "vocab_size": corpus.tokenizer.vocab_size,
            # In 180 s, the peers learn more from 8 x 256 tokens than from our 4 x 512.
            "context": 256,
            "length": 256,
            "embed_dim": model.embed_dim,
            "num_heads": model.num_heads,
            "head_dim": model.embed_dim // model.num_heads,
            "ff_dim": 4 * model.embed_dim,
            "num_layers": model.num_layers,
            "batch_size": 8,
        },
    }
    (path / "facts.json").write_text(json.dumps(facts))
    return {"value": corpus.train.tokens}


def read_ids(context: Context, name: str) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Returns the training ids, the held-out ids and the facts of a text."""
    path = folder(context, name)
    facts = json.loads((path / "facts.json").read_text())
    return np.load(path / "train.npy"), np.load(path / "val.npy"), facts


def held_out_words(rows: np.ndarray, vocab_size: int) -> HeldOut:
    """Returns the first 81 words of each held-out review, to be scored in nats per word."""
    return beginnings(rows, vocab_size)


def held_out_stories(ids: np.ndarray, facts: dict[str, Any]) -> HeldOut:
    """Returns the held-out stories in the peers' windows, to be scored in bits per byte."""
    sizes = facts["sizes"]
    return windows(ids, sizes["length"], facts["bytes"], sizes["vocab_size"])
