"""The tokenizers of the engine against those in Python: the same ids for every text.

The C files are compiled without the rest of the engine; engine_tokenizer.c exports their functions.
"""

import itertools
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minigpt.targets.gguf.tokenizer_tables import tokenizer_tables
from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.splitting import WHITE_SPACE, AddedToken
from minigpt.tokenizers.unicode_tables import lower, ranges
from minigpt.tokenizers.word import WordTokenizer
from scripts.make_engine_tables import FILE, header
from tests.mixed_lines import code, scraps

ENGINE = FILE.parent
GPT2_FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "gpt2"
SOURCES = ("errors", "memory", "unicode", "pieces", "merging", "added", "tokenizer")
FLAGS = (
    *("--target=wasm32", "-O3", "-msimd128", "-mbulk-memory", "-ffreestanding", "-nostdlib"),
    *("-ffp-contract=off", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wl,--no-entry"),
)
KINDS = ("byte_pair", "character", "word", "gpt2")
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
_RANGES = [*ranges("L", "N", "P", "S", "capital", "cased", "ignorable"), *WHITE_SPACE]
_NEAR = {c for first, last in _RANGES for c in (first - 1, first, last, last + 1)}
_NEAR |= {*range(0x180), 0x2581, 0x2585, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}
# The properties of characters change only at these.
ENDS_OF_RANGES = sorted(_NEAR & set(CODE_POINTS))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns the compiled module with its wasmtime engine."""
    wasmtime = pytest.importorskip("wasmtime", reason="needs wasmtime: pip install wasmtime")
    for name in ("clang", "wasm-ld"):
        if not shutil.which(name):
            pytest.skip(f"needs {name}, of the packages clang and lld")
    output = tmp_path_factory.mktemp("engine") / "tokenizer.wasm"
    sources = [str(ENGINE / f"{name}.c") for name in SOURCES]
    own = str(Path(__file__).with_name("engine_tokenizer.c"))
    include = ["-I", str(ENGINE)]
    subprocess.run(["clang", *FLAGS, *include, *sources, own, "-o", str(output)], check=True)
    engine = wasmtime.Engine()
    return engine, wasmtime.Module.from_file(engine, str(output))


class Compiled:
    """An instance of the compiled C files with the tables of a tokenizer."""

    def __init__(self, program: Any, tables: dict[str, Any]) -> None:
        import wasmtime

        engine, module = program
        self.store = wasmtime.Store(engine)
        self.exports = wasmtime.Instance(self.store, module, []).exports(self.store)
        names = ("pieces", "piece_ends", "ranks", "byte_ids")
        arrays = [self.copied(tables[name].tobytes()) for name in names]
        names = ("added", "added_ends", "added_ids", "added_flags")
        none = np.zeros(0, np.int32)
        added = [self.copied(tables.get(name, none).tobytes()) for name in names]
        self.is_open = self.call(
            "open_tokenizer",
            KINDS.index(tables["kind"]),
            int(tables["lowercase"]),
            len(tables["piece_ends"]),
            tables["unknown_id"],
            *arrays,
            len(tables.get("added_ends", none)),
            *added,
        )

    def call(self, name: str, *arguments: int) -> Any:
        return self.exports[name](self.store, *arguments)

    def copied(self, data: bytes) -> int:
        """Returns the address of a copy of the data."""
        address = self.call("allocate", len(data))
        self.exports["memory"].write(self.store, data, address)
        return address

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.exports["memory"].read(self.store, address, address + size))

    def numbers(self, address: int, count: int) -> np.ndarray:
        return np.frombuffer(self.read(address, 4 * count), np.int32)

    def encode(self, text: str | bytes) -> tuple[list[int], int] | str:
        """Returns the ids and the number of unknown words or characters, or the error message."""
        data = text.encode() if isinstance(text, str) else text
        mark = self.call("memory_mark")
        # The byte after the text would complete a character.
        encoded = self.call("encode_text", self.copied(data + b"\x80"), len(data))
        if not encoded:
            self.call("release_to", mark)
            return self.read(self.call("error_message"), 512).split(b"\0")[0].decode()
        address, count, unknown = self.numbers(encoded, 3).tolist()
        ids = self.numbers(address, count).tolist()
        self.call("release_to", mark)
        return ids, unknown

    def lower(self, text: str) -> str:
        data = text.encode()
        mark = self.call("memory_mark")
        address, size = self.numbers(
            self.call("lower_text", self.copied(data), len(data)), 2
        ).tolist()
        lowered = self.read(address, size).decode()
        self.call("release_to", mark)
        return lowered


LINES = [*scraps(600, 1), *code(200, 2), "", " ", "   ", "\n", "\0", "\u2581", "\x10", "'", " '"]
TEXT = "\n".join([*scraps(800, 3), *code(800, 4), "\x10a \u2581b ΑΣ İstanbul é é the the " * 20])
TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "byte_pair": lambda: BytePairTokenizer.learn([TEXT], 2_000, False),
    "byte_pair-lower-case": lambda: BytePairTokenizer.learn([TEXT], 900, True),
    "byte_pair-of-bytes": lambda: BytePairTokenizer.learn([], 259, False),
    "character": lambda: CharacterTokenizer.learn([TEXT], 60, False),
    "character-lower-case": lambda: CharacterTokenizer.learn([TEXT], 5_000, True),
    "character-of-bytes": lambda: CharacterTokenizer.learn([""], 10, False),
    "word": lambda: WordTokenizer.learn([TEXT], 700, False),
    "word-lower-case": lambda: WordTokenizer.learn([TEXT], 100_000, True),
    "gpt2": lambda: GPT2Tokenizer.from_files(
        (GPT2_FIXTURES / "encoder.json").read_bytes(), (GPT2_FIXTURES / "vocab.bpe").read_bytes()
    ),
}


def gpt2_with_added_tokens() -> GPT2Tokenizer:
    plain = TOKENIZERS["gpt2"]()
    assert isinstance(plain, GPT2Tokenizer)
    names = ("single_word", "lstrip", "rstrip", "normalized")
    added = [AddedToken(plain.end_id, "<|endoftext|>", special=True)]
    # Every combination of flags; of some, texts that begin alike.
    for number in range(16):
        flags = {name: bool(number >> place & 1) for place, name in enumerate(names)}
        added += [AddedToken(400 + number, f"<{number}>", **flags)]
        added += [
            AddedToken(416 + number, "\n" * (number + 2) if number < 2 else f"t{number}é", **flags)
        ]
    special = plain.special | {token.content: token.id for token in added}
    return GPT2Tokenizer(plain.encoder, plain.merges, special, plain.end_id, None, added)


def test_added_tokens(program):
    tokenizer = gpt2_with_added_tokens()
    pair = tokenizer, Compiled(program, tokenizer_tables(tokenizer))
    draw = random.Random(5)
    parts = [
        *(token.content for token in tokenizer.added),
        " ",
        "\n",
        "\u3000",
        "a",
        "é",
        "_",
        "\u0301",
        "東",
        "!",
    ]
    check(pair, ["".join(draw.choices(parts, k=draw.randrange(15))) for _ in range(1_000)])
    check(pair, beside_added_tokens(ENDS_OF_RANGES))


def beside_added_tokens(points: list[int]) -> list[str]:
    beside = [f"{chr(c)}<1>{chr(c)}<6>{chr(c)}" for c in points]
    return ["\t".join(beside[i : i + 2_000]) for i in range(0, len(beside), 2_000)]


@pytest.fixture(scope="module", params=[*TOKENIZERS, "gpt2-published"])
def pair(request: pytest.FixtureRequest, program: Any) -> tuple[Tokenizer, Compiled]:
    """A tokenizer, and the same one in the engine."""
    if request.param == "gpt2-published":
        folder = request.getfixturevalue("shared_data") / "gpt2"
        files = [(folder / name).read_bytes() for name in ("encoder.json", "vocab.bpe")]
        tokenizer: Tokenizer = GPT2Tokenizer.from_files(files[0], files[1])
    else:
        tokenizer = TOKENIZERS[request.param]()
    compiled = Compiled(program, tokenizer_tables(tokenizer))
    assert compiled.is_open
    return tokenizer, compiled


def check(pair: tuple[Tokenizer, Compiled], texts: list[str]) -> None:
    tokenizer, compiled = pair
    for text, ids in zip(texts, tokenizer.encode_many(texts), strict=True):
        expected = ids.tolist(), tokenizer.count_unknown(text)
        assert compiled.encode(text) == expected, repr(text[:100])


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
def test_lower_casing_of_code_points(program, pattern, points):
    compiled = Compiled(program, tokenizer_tables(TOKENIZERS["character-of-bytes"]()))
    # A line break is neither cased nor case-ignorable.
    text = "\n".join(pattern.format(chr(c), chr(c)) for c in points)
    assert compiled.lower(text) == lower(text)


def test_invalid_utf8_is_an_error(program):
    """Against Python's decoder: all sequences of bytes at the ends of the ranges that UTF-8 has."""
    compiled = Compiled(program, tokenizer_tables(TOKENIZERS["character-of-bytes"]()))
    first = b"a\x7f\x80\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff"
    second, third = b"a\x80\x8f\x90\x9f\xa0\xbf\xc2", b"a\x80\xbf\xc2"
    places = (first, second, third, third)
    for size in range(5):
        for data in map(bytes, itertools.product(*places[:size])):
            try:
                data.decode()
            except UnicodeDecodeError:
                assert compiled.encode(data) == "the text is not valid UTF-8", data
            else:
                assert not isinstance(compiled.encode(data), str), data


def test_the_generated_tables_are_current():
    assert FILE.read_text(encoding="ascii") == header()
