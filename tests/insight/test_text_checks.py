"""Bad texts of every kind are found, good ones are not."""

import random
from pathlib import Path

import numpy as np
import pytest

from minigpt.config import load_config
from minigpt.corpus.token_store import open_corpus
from minigpt.insight.text_checks import (
    BLOCKS,
    _copied_passages,
    check_sample,
    check_text,
    sample_text,
)

WORDS = [
    "the", "a", "of", "river", "and", "house", "stone", "walked",
    "slowly", "because", "nobody", "had", "seen", "what", "they", "knew",
    "when", "light", "came", "over", "hills", "while", "old", "people",
    "sang", "about", "winter", "bread", "horses", "ships", "letters",
]  # fmt: skip
ACCENTS = (
    "Le café était fermé, où êtes-vous allés après le dîner – à l’hôtel “Étoile” près du château ? "
)
RUSSIAN = (
    "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. "
)


def prose(sentences: int, seed: int = 0) -> list[str]:
    """Sentences of random words: no two are equal."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choices(WORDS, k=draw.randint(8, 16))).capitalize() + "."
        for _ in range(sentences)
    ]


def paragraphs(count: int, seed: int = 0) -> list[str]:
    sentences = prose(5 * count, seed)
    return ["\n".join(sentences[5 * i : 5 * i + 5]) for i in range(count)]


def documents(*texts: str) -> list[str]:
    return list(texts)


def kinds(passages: list[str]) -> list[str]:
    return [finding.kind for finding in check_sample(passages)]


def mixed(texts: list[str], damage, share: float = 0.5) -> list[str]:
    """Texts of which some are damaged."""
    return documents(
        *(damage(text) if i < share * len(texts) else text for i, text in enumerate(texts))
    )


REFRAIN = "And the wind went over the water, singing"
GOOD = {
    "prose": documents(*paragraphs(200)),
    "one text": documents("\n".join(paragraphs(200))),
    "a poem with a refrain": documents(
        "\n\n".join(f"{p}\n{REFRAIN}" for p in paragraphs(30, seed=2))
    ),
    "French": documents(ACCENTS + "\n\n".join(p + ACCENTS[: 9 + i] for i, p in enumerate(paragraphs(60)))),
    "reviews with line breaks": documents(
        *(p.replace("\n", "<br /><br /><i>so</i> ") for p in paragraphs(200))
    ),
    "licenses in a third of the files": documents(
        *("# Licensed under the Apache License\n" * (i % 3 == 0) + p for i, p in enumerate(paragraphs(90)))
    ),
    "Windows line ends": documents(*(p.replace("\n", "\r\n") for p in paragraphs(90))),
    "a few lines": documents("To be, or not to be.\n" * 12),
    "nothing": [],
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_texts(name):
    assert list(check_sample(GOOD[name])) == []


def double_encoded(text: str, encoding: str = "cp1252") -> str:
    """UTF-8 that was read in another encoding; bytes without a character there as in Latin-1."""
    return "".join(
        bytes([b]).decode(encoding, "ignore") or chr(b) for b in (text + ACCENTS + RUSSIAN).encode()
    )


BLOCK = "\n".join(paragraphs(30, seed=5))
BAD = {
    "line": ("repeated_line", documents("The quick brown fox jumps over it.\n" * 400)),
    "line between lines": (
        "repeated_line",
        documents("\n".join(s + "\nBuy the best umbrellas at example.com" for s in prose(300))),
    ),
    "block": ("repeated_text", documents(BLOCK * 50)),
    "blocks in documents": ("duplicates", documents(*[BLOCK] * 5)),
    "paragraphs twice, far from each other": (
        "duplicates",
        documents("\n\n".join(paragraphs(90) + random.Random(0).sample(paragraphs(90), 90))),
    ),
    "few paragraphs, any order": (
        "repeated_text",
        documents("\n".join(random.Random(0).choices(paragraphs(20), k=400))),
    ),
    "double encoding": ("encoding", mixed(paragraphs(100), double_encoded)),
    "Windows-1251": (
        "encoding",
        mixed(paragraphs(100), lambda t: t + RUSSIAN.encode("cp1251").decode("latin-1")),
    ),
    "lost characters": (
        "encoding",
        mixed(
            paragraphs(100),
            lambda t: t + ACCENTS.encode("latin-1", "ignore").decode("utf-8", "replace"),
        ),
    ),
    "NUL": ("control_characters", documents(*(p.replace(". ", ".\0") + "\0" for p in paragraphs(99)))),
    "colors": (
        "control_characters",
        documents("\n".join(f"\x1b[31mERROR\x1b[0m {s}" for s in prose(300))),
    ),
    "HTML": (
        "html",
        documents(*(f'<div class="post"><p>{s}</p></div>' for s in prose(300))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_texts(name):
    kind, passages = BAD[name]
    assert set(kinds(passages)) == {kind}
    for finding in check_sample(passages):
        assert finding.evidence.isprintable()
        assert any(character.isdigit() for character in finding.evidence)


def test_copied_passages_equal_brute_force():
    draw = random.Random(0)
    block = bytes(draw.choices(b"ab", k=90))
    data = b"".join(draw.choice([block, bytes(draw.choices(b"abcdef", k=70))]) for _ in range(12))
    windows = [data[i : i + 50] for i in range(len(data) - 49)]
    share, start = _copied_passages(data)
    assert share == pytest.approx(1 - len(set(windows)) / len(windows), abs=1e-2)
    assert start == next(i for i, window in enumerate(windows) if windows.count(window) > 1)


def opened(tmp_path: Path, text: str, separator: str | None = None, kind: str = "character"):
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    data = {
        "source": "files",
        "paths": [str(tmp_path / "text.txt")],
        "document_separator": separator,
    }
    settings = {"data": data, "tokenizer": {"kind": kind, "vocab_size": 300}}
    config = load_config(settings)
    return open_corpus(config.data, config.tokenizer), config


@pytest.mark.parametrize("kind", ["character", "word"])
def test_duplicates(tmp_path, kind):
    texts = paragraphs(60)
    corpus, config = opened(tmp_path, "|".join(texts + texts[:40]), "|", kind)
    (finding,) = check_text(corpus, config)
    assert finding.kind == "duplicates" and "40 of the 100" in finding.evidence
    corpus, config = opened(tmp_path, "|".join(texts + texts[:6]), "|", kind)
    assert check_text(corpus, config) == []


def test_short_documents_may_be_equal(tmp_path):
    corpus, config = opened(tmp_path, "|".join(["Yes.", "No, why?"] * 50 + prose(70)), "|")
    assert corpus.duplicates == 98
    assert check_text(corpus, config) == []


def test_duplicates_of_pairs(tmp_path):
    lines = [f"{s}\t{s[::-1]}\n" for s in prose(50)]
    (tmp_path / "pairs.tsv").write_text("".join(lines * 3))
    data = {"source": "pairs", "paths": [str(tmp_path / "pairs.tsv")]}
    model = {"kind": "encoder_decoder", "block": "post_norm"}
    tokenizer = {"kind": "character", "vocab_size": 100}
    config = load_config({"data": data, "model": model, "tokenizer": tokenizer})
    found = check_text(open_corpus(config.data, config.tokenizer), config)
    assert found[0].kind == "duplicates" and "100 of the 150" in found[0].evidence


@pytest.mark.parametrize("kind", ["character", "byte_pair"])
def test_all_of_a_short_text_is_sampled(tmp_path, kind):
    texts = [text + " é☃" for text in paragraphs(30)]
    corpus, _ = opened(tmp_path, "|".join(texts), "|", kind)
    sampled = sample_text(corpus)
    assert len(sampled) == corpus.train.documents and set(sampled) < set(texts)


@pytest.mark.parametrize("kind", ["character", "byte_pair"])
def test_blocks_of_a_long_text(tmp_path, kind):
    # Characters of several bytes, none of which may be cut.
    rare = [[chr(0x4E00 + 97 * i + k) for k in range(90)] for i in range(200)]
    texts = [f"{text} {''.join(rare[i % 200])}" for i, text in enumerate(paragraphs(300))]
    corpus, _ = opened(tmp_path, "|".join(texts), "|", kind)
    passages = sample_text(corpus, max_bytes=20_000)
    sampled = "".join(passages)
    assert 15_000 < len(sampled.encode()) <= 21_000
    assert "\ufffd" not in sampled
    assert len(set(passages) & set(texts)) > 3
    positions = [next(i for i, t in enumerate(texts) if passage in t) for passage in passages]
    assert len(np.unique(np.array(positions) * BLOCKS // 300)) >= BLOCKS - 2
    assert sample_text(corpus, max_bytes=20_000) == passages
