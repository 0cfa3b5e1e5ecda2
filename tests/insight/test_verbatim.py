"""Verbatim passages against a search of every passage in every document."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt.insight import verbatim
from minigpt.insight.verbatim import TokenBytes
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.word import WordTokenizer
from tests.insight.training_texts import brute_force, search
from tests.tokenizers.test_gpt2 import ENCODER, MERGES

CHARACTERS = CharacterTokenizer([*"abcdefghij \n"], b"", lowercase=False)
SENTENCE = "It was a bright cold day in April, and the clocks were striking."
WORDS = ("ab", "cde", "fgh abc", "a", "dddddd", "abcdefgh", "ä☃𝄞", "é\u00a0ö")


def mixed(draw: random.Random, words: int) -> str:
    return "".join(draw.choice(WORDS) + draw.choice("    \n\t") for _ in range(words))


def planted(draw: random.Random) -> tuple[list[str], list[str]]:
    """Documents and texts that share parts, which begin and end anywhere."""
    shared = mixed(draw, 60)
    documents, texts = [], []
    for _ in range(draw.randint(1, 4)):
        document = mixed(draw, draw.randint(0, 20))
        for _ in range(draw.randint(0, 3)):
            begin = draw.randrange(len(shared))
            document += shared[begin : begin + draw.randint(40, 150)] + draw.choice(("", " ", "a"))
            document += mixed(draw, draw.randint(0, 5))
        documents.append(document or "a")
    for _ in range(3):
        begin = draw.randrange(len(shared) // 2)
        text = shared[begin : begin + draw.randint(0, 250)]
        if text and draw.random() < 0.5:
            changed = draw.randrange(len(text))
            text = text[:changed] + "h" + text[changed + 1 :]
        texts.append(text)
    return documents, texts


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([3, 50, 4096]))
def test_the_same_passages_as_brute_force(seed, block):
    documents, texts = planted(random.Random(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verbatim, "_BLOCK_TOKENS", block)
        for text, inside in zip(texts, search(CHARACTERS, documents, texts), strict=True):
            starts = np.cumsum([0, *(len(character.encode()) for character in text)])
            copied = {number for number in range(len(text)) if inside[starts[number]]}
            assert copied == brute_force(documents, text)


def tokenizers() -> list:
    text = [SENTENCE * 3 + " Привет, мир ☃ \u2581 \x10 \u2581"]
    return [
        CharacterTokenizer.learn(text, 30, lowercase=False),
        CharacterTokenizer.learn(text, 30, lowercase=True),
        BytePairTokenizer.learn(text, 300, lowercase=False),
        GPT2Tokenizer.from_files(ENCODER.read_bytes(), MERGES.read_bytes()),
        WordTokenizer.learn(text, 300, lowercase=True),
    ]


@pytest.mark.parametrize("tokenizer", tokenizers(), ids=lambda t: f"{type(t).__name__}")
def test_every_tokenizer(tokenizer):
    passage = "Привет, мир ☃ \u2581 \x10 \u2581 " + SENTENCE
    documents = ["mir und striking " + SENTENCE[:20], "\u2581 the clocks " + passage + " cold day"]
    text = "in April " + passage + " striking"
    (inside,) = search(tokenizer, documents, [text])
    token_bytes = TokenBytes(tokenizer)
    found = token_bytes.decode(token_bytes.join(tokenizer.encode(text))[inside])
    assert found.strip() == tokenizer.decode(tokenizer.encode(passage)).strip()


@pytest.mark.parametrize(
    ("words", "characters", "found"), [(7, 60, False), (8, 49, False), (8, 50, True), (9, 50, True)]
)
def test_both_thresholds(words, characters, found):
    draw = random.Random(words * characters)
    chosen = ["".join(draw.choices("abcdefgh", k=3)) for _ in range(words)]
    chosen[draw.randrange(words)] += "j" * (characters - len(" ".join(chosen)))
    passage = " ".join(chosen)
    assert (len(passage), len(passage.split())) == (characters, words)
    (inside,) = search(CHARACTERS, [f"bad {passage} face"], [f"cab {passage} edge"])
    expected = range(4, 4 + characters) if found else []
    assert np.flatnonzero(inside).tolist() == list(expected)


def test_no_passage_crosses_an_unknown_word():
    tokenizer = WordTokenizer.learn([SENTENCE], 300, lowercase=False)
    for word in ("cold", "unknown"):
        text = SENTENCE.replace("cold", word)
        assert search(tokenizer, [text], [text])[0][20] == (word == "cold"), word


def test_a_repeated_word_ends_in_time():
    for inside in search(CHARACTERS, ["a " * 1_000_000], ["a " * 300 + "b"] * 40):
        assert np.flatnonzero(inside).tolist() == list(range(599))
