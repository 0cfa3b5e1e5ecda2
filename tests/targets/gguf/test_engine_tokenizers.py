"""The tokenizers of the engine against those in Python: the same ids for every text."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from minigpt.targets.gguf.instance import Engine, EngineError
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.gpt2 import WHITE_SPACE, AddedToken, GPT2Tokenizer
from minigpt.tokenizers.unicode_tables import lower, ranges
from minigpt.tokenizers.word import WordTokenizer
from scripts.make_engine_tables import FILE, header
from tests.mixed_lines import code, scraps
from tests.targets.gguf.models import gpt2_tokenizer
from tests.targets.gguf.small_files import built

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
_RANGES = [*ranges("L", "N", "P", "S", "capital", "cased", "ignorable"), *WHITE_SPACE]
_NEAR = {c for first, last in _RANGES for c in (first - 1, first, last, last + 1)}
_NEAR |= {*range(0x180), 0x2581, 0x2585, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}
# The properties of characters change only at these.
ENDS_OF_RANGES = sorted(_NEAR & set(CODE_POINTS))


def in_the_engine(tokenizer: Tokenizer, folder: Path) -> Engine:
    built(tokenizer, "float32", {"embed_dim": 4}, folder / "model.gguf")
    return Engine(folder / "model.gguf")


def bytes_tokenizer() -> CharacterTokenizer:
    return CharacterTokenizer.learn([""], 10, False)


LINES = [*scraps(600, 1), *code(200, 2), "", " ", "   ", "\n", "\0", "\u2581", "\x10", "'", " '"]
TEXT = "\n".join([*scraps(800, 3), *code(800, 4), "\x10a \u2581b ΑΣ İstanbul é é the the " * 20])
TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "byte_pair": lambda: BytePairTokenizer.learn([TEXT], 2_000, False),
    "byte_pair-lower-case": lambda: BytePairTokenizer.learn([TEXT], 900, True),
    "byte_pair-of-bytes": lambda: BytePairTokenizer.learn([], 259, False),
    "character": lambda: CharacterTokenizer.learn([TEXT], 60, False),
    "character-lower-case": lambda: CharacterTokenizer.learn([TEXT], 5_000, True),
    "character-of-bytes": bytes_tokenizer,
    "word": lambda: WordTokenizer.learn([TEXT], 700, False),
    "word-lower-case": lambda: WordTokenizer.learn([TEXT], 100_000, True),
    "gpt2": gpt2_tokenizer,
}


def gpt2_with_added_tokens() -> GPT2Tokenizer:
    plain = gpt2_tokenizer()
    contents = ["<1>", "<12>", "<1", "\n\n", "\n\n\n", "té", "t"]
    added = [AddedToken(plain.end_id, "<|endoftext|>", special=True)]
    # Texts that begin alike, with and without the flag.
    for i, content in enumerate(contents):
        added.append(AddedToken(400 + i, content, normalized=i % 2 == 1))
        added.append(AddedToken(416 + i, content[::-1] + "é", normalized=i % 2 == 0))
    special = plain.special | {token.content: token.id for token in added}
    return GPT2Tokenizer(plain.encoder, plain.merges, special, plain.end_id, None, added)


def test_added_tokens(tmp_path):
    tokenizer = gpt2_with_added_tokens()
    pair = tokenizer, in_the_engine(tokenizer, tmp_path)
    draw = random.Random(5)
    parts = [*(token.content for token in tokenizer.added), *" \n\u3000aé_\u0301東!"]
    check(pair, ["".join(draw.choices(parts, k=draw.randrange(15))) for _ in range(1_000)])


@pytest.fixture(scope="module", params=[*TOKENIZERS, "gpt2-published"])
def pair(request: pytest.FixtureRequest, tmp_path_factory) -> tuple[Tokenizer, Engine]:
    """A tokenizer, and the same one in the engine."""
    if request.param == "gpt2-published":
        folder = request.getfixturevalue("shared_data") / "gpt2"
        tokenizer: Tokenizer = gpt2_tokenizer(folder)
    else:
        tokenizer = TOKENIZERS[request.param]()
    return tokenizer, in_the_engine(tokenizer, tmp_path_factory.mktemp("engine"))


def check(pair: tuple[Tokenizer, Engine], texts: list[str]) -> None:
    tokenizer, engine = pair
    for text, ids in zip(texts, tokenizer.encode_many(texts), strict=True):
        found, unknown = engine.encode(text)
        expected = ids.tolist(), tokenizer.count_unknown(text)
        assert (found.tolist(), unknown) == expected, repr(text[:100])


def test_mixed_lines(pair):
    check(pair, LINES)


def in_contexts(points: list[int]) -> list[str]:
    """Lines with letters, digits, signs and spaces in front of and after each code point."""
    characters = [chr(c) for c in points]
    lines = [f"a{c} {c}1{c}{c}!{c}  {c}Σ{c}b {c}'s {c}" for c in characters]
    return ["\n".join(lines[i : i + 2_000]) for i in range(0, len(lines), 2_000)]


def test_code_points_around_the_ends_of_every_range(pair):
    check(pair, in_contexts(ENDS_OF_RANGES))


@pytest.mark.slow
def test_every_code_point(pair):
    check(pair, in_contexts(CODE_POINTS))


def test_a_long_text(pair):
    """A word or a run of spaces may be as long as the text."""
    text = "".join(scraps(5_000, 5))[:20_000]
    check(pair, [text, text.replace("\n", " "), "a" * 50_000, " " * 50_000, "é" * 25_000])


@pytest.mark.parametrize(
    "points", [ENDS_OF_RANGES, pytest.param(CODE_POINTS, marks=pytest.mark.slow)], ids=len
)
@pytest.mark.parametrize("pattern", ["a{}Σ", "aΣ{}", "aΣ{}b", "{}Σ{}"])
def test_lower_casing_of_code_points(tmp_path, pattern, points):
    engine = in_the_engine(CharacterTokenizer.learn([""], 10, True), tmp_path)
    # A line break is neither cased nor case-ignorable.
    text = "\n".join(pattern.format(chr(c), chr(c)) for c in points)
    assert engine.encode(text)[0].tolist() == bytes_tokenizer().encode(lower(text)).tolist()


def test_invalid_utf8_is_an_error(tmp_path):
    """Against Python's decoder: all sequences of bytes at the ends of the ranges that UTF-8 has."""
    engine = in_the_engine(bytes_tokenizer(), tmp_path)
    first = b"a\x7f\x80\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff"
    second, third = b"a\x80\x8f\x90\x9f\xa0\xbf\xc2", b"a\x80\xbf\xc2"
    places = (first, second, third, third)
    for size in range(5):
        for data in map(bytes, itertools.product(*places[:size])):
            with engine._released():
                # The byte after the text would complete a character.
                address, _ = engine._write(data + b"\x80")
                try:
                    data.decode()
                except UnicodeDecodeError:
                    with pytest.raises(EngineError, match="the text is not valid UTF-8"):
                        engine._checked("encode_text", address, size)
                else:
                    engine._checked("encode_text", address, size)


def test_the_generated_tables_are_current():
    assert FILE.read_text(encoding="ascii") == header()
