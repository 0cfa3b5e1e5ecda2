"""Verbatim passages against a search of every passage in every document."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt.insight import verbatim
from minigpt.insight.verbatim import Copies, Text, TokenBytes, TokenText, find_copies
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.word import WordTokenizer
from tests.insight.training_texts import brute_force, ids_of, positions, search
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
    draw = random.Random(seed)
    documents, texts = planted(draw)
    begins = [len(text[: draw.randrange(len(text) + 1)]) * draw.randrange(2) for text in texts]
    prompts = [len(text[:begin].encode()) for text, begin in zip(texts, begins, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verbatim, "_FIRST_BLOCK", block)
        patch.setattr(verbatim, "_LARGEST_BLOCK", 4 * block)
        copies, training = search(CHARACTERS, documents, texts, prompts)
        longest = 0
        for text, begin, spans in zip(texts, begins, copies.spans, strict=True):
            inside, length = brute_force(documents, text, begin)
            data = text.encode()
            assert inside == positions(
                [(len(data[:a].decode()), len(data[:b].decode())) for a, b in spans]
            )
            longest = max(longest, length)
        if copies.longest is None:
            assert longest == 0
            return
        number, first, end = copies.longest
        data = texts[number].encode()
        passage = data[first:end].decode()
        assert len(data[max(first, prompts[number]) : end].decode()) == longest
        document, characters, lines = training.place(copies.offset)
        before = documents[document][:characters]
        assert documents[document][characters:].startswith(passage)
        assert lines == before.count("\n")


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
    copies, training = search(tokenizer, documents, ["in April " + passage + " striking"])
    (spans,) = copies.spans
    token_bytes = TokenBytes(tokenizer)
    data = token_bytes.join(tokenizer.encode("in April " + passage + " striking")).tobytes()
    ((begin, end),) = spans
    found = token_bytes.decode(data[begin:end])
    assert found.strip() == tokenizer.decode(tokenizer.encode(passage)).strip()
    document, characters, _ = training.place(copies.offset)
    assert document == 1
    decoded = tokenizer.decode(tokenizer.encode(documents[1]))
    assert decoded[characters:].startswith(found.strip())


@pytest.mark.parametrize(
    ("words", "characters", "found"), [(7, 60, False), (8, 49, False), (8, 50, True), (9, 50, True)]
)
def test_both_thresholds(words, characters, found):
    draw = random.Random(words * characters)
    chosen = ["".join(draw.choices("abcdefgh", k=3)) for _ in range(words)]
    chosen[draw.randrange(words)] += "j" * (characters - len(" ".join(chosen)))
    passage = " ".join(chosen)
    assert (len(passage), len(passage.split())) == (characters, words)
    copies, _ = search(CHARACTERS, [f"bad {passage} face"], [f"cab {passage} edge"])
    assert copies.spans == [[(4, 4 + characters)] if found else []]


def test_an_escape_sequence_is_one_character():
    tokenizer = BytePairTokenizer.learn([SENTENCE * 5], 320, lowercase=False)
    passage = " ".join(["\u2581", *["abcde"] * 7, "abcdef"])
    assert len(passage) == 50
    assert search(tokenizer, [passage], [passage])[0].spans != [[]]
    assert search(tokenizer, [passage[:-1]], [passage[:-1]])[0].spans == [[]]


def test_no_passage_crosses_an_unknown_word():
    tokenizer = WordTokenizer.learn([SENTENCE], 300, lowercase=False)
    for word in ("cold", "unknown"):
        text = SENTENCE.replace("cold", word)
        spans = search(tokenizer, [text], [text])[0].spans
        assert bool(positions(spans[0]) & {20}) == (word == "cold"), word


def test_no_texts():
    """A model of pairs may have no held-out pair that fits it."""
    assert search(CHARACTERS, ["abc " * 20], [])[0] == Copies()


def test_a_repeated_word_ends_in_time():
    copies, _ = search(CHARACTERS, ["a " * 1_000_000], ["a " * 300 + "b"] * 40)
    assert copies.spans == [[(0, 599)]] * 40


def test_the_sources_of_pairs_are_left_out():
    first, second = mixed(random.Random(1), 20), mixed(random.Random(2), 20)
    ids = ids_of(CHARACTERS, [first, second, second, first])
    token_bytes = TokenBytes(CHARACTERS)
    for size, is_target in itertools.product((3, 4096), (True, False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(verbatim, "_FIRST_BLOCK", size)
            part = ids if is_target else ids[: 1 + len(CHARACTERS.encode(first)) + 1]
            training = TokenText(part, token_bytes, targets_only=True)
            text = Text(token_bytes.join(CHARACTERS.encode(first)))
            copies = find_copies(training, [text], token_bytes)
            assert bool(copies.spans[0]) == is_target
            if is_target:
                assert training.place(copies.offset) == (1, 0, 0)
