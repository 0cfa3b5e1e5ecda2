"""Small texts and pairs, for the tests of token stores."""

import numpy as np

from tests.settings import data_config, tokenizer_config

CHARACTERS = tokenizer_config(kind="character", vocab_size=100)
WORDS = [
    "apple", "bread", "cloud", "dream", "eagle", "flame", "grass", "house", "ivory", "jewel",
    "knife", "lemon", "mango", "knight", "ocean", "piano", "queen", "river", "stone", "tiger",
]  # fmt: skip
TEXTS = [f"{word} and {word}s" for word in WORDS]


def files(tmp_path, texts, name="text.txt"):
    path = tmp_path / name
    path.write_text("|".join(texts), encoding="utf-8")
    return data_config(source="files", paths=[str(path)], document_separator="|")


def decoded(part, tokenizer):
    """The documents of a part, and whether the last one has its end."""
    ids = np.asarray(part.ids, np.int64)
    assert ids[0] == tokenizer.end_id
    *whole, rest = np.split(ids[1:], np.flatnonzero(ids[1:] == tokenizer.end_id) + 1)
    texts = [tokenizer.decode(document[:-1]) for document in whole]
    return (texts, True) if not len(rest) else ([*texts, tokenizer.decode(rest)], False)


def pairs(tmp_path, **options):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"s{number}\tt{number}\n" for number in range(40)))
    return data_config(source="pairs", paths=[str(path)], **options)
