"""text_to_text.onnx: its parts against their sources, and the file against minigpt's own loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from minigpt.config import load_config
from minigpt.generation.decoding import Decoder
from minigpt.generation.sampling import SamplingSettings
from minigpt.generation.step_models import CachedGPT
from minigpt.models import build_gpt
from minigpt.targets.cached_step import CachedStep
from minigpt.targets.material import _HARD_LINES
from minigpt.targets.onnx.text.detokenizing import Detokenizer, valid_utf8
from minigpt.targets.onnx.text.encoding import build_encoder, encoder_problem
from minigpt.targets.onnx.text.words32 import uniform
from minigpt.tokenizers import learn_tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.gpt2_files import byte_alphabet
from minigpt.tokenizers.splitting import AddedToken
from tests.conftest import tiny_text
from tests.settings import tokenizer_config

LINES = [
    *_HARD_LINES,
    "\n\n x\t\r\n y ",
    "a\0b\0\0",
    "\x10\x10a\u2581b \x10",
    "aaaa aaaaa  a   a",
    "They'll say 'tis John's, I'Ll  's \n's don''t. x\u2003y ...!'ve",
    "ΑΣ ΑΣΑ Α\u0301Σ. Σ'Σ İÇ ǅ ʰΣ\u00ad",
    *tiny_text(30).splitlines(),
]


def tokenizer_of(kind: str, lowercase: bool = False):
    if kind == "gpt2":
        # The published pattern, with merges of a small text.
        pieces = {bytes([byte]): i for i, byte in enumerate(range(256))}
        names = {byte: name for name, byte in byte_alphabet().items()}
        merges, words = [], [" sat", "the", " hill", "ate", "'s", "...", "ll"]
        for word in words:
            made = [names[byte] for byte in word.encode()]
            while len(made) > 1:
                pair, made = (made[0], made[1]), [made[0] + made[1], *made[2:]]
                if pair not in merges:
                    merges.append(pair)
        encoder = {names[piece[0]]: i for piece, i in pieces.items()}
        encoder |= {a + b: i for i, (a, b) in enumerate(merges, 256)}
        end = len(encoder)
        return GPT2Tokenizer(encoder, merges, {"<|endoftext|>": end}, end)
    settings = tokenizer_config(kind=kind, vocab_size=300, lowercase=lowercase)
    return learn_tokenizer([tiny_text(200), "Čeněk\u2581x"], settings)


KINDS = ["byte_pair", "character", "word", "gpt2"]
VARIANTS = [(kind, lowercase) for kind in KINDS for lowercase in (False, True)][:-1]


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda variant: "-".join(map(str, variant)))
def tokenizer(request):
    return tokenizer_of(*request.param)


def padded(rows) -> np.ndarray:
    """int32[B, N] of rows of numbers, -1 behind a shorter one."""
    found = np.full([len(rows), max(map(len, rows))], -1, np.int32)
    for row, values in zip(found, rows, strict=True):
        row[: len(values)] = list(values)
    return found


def rows_of(found) -> list[list[int]]:
    return [row[row >= 0].tolist() for row in np.asarray(found)]


def test_random_numbers_are_those_of_tensorflow():
    draw = np.random.default_rng(0)
    seeds = [0, 1, -1, 2**31 - 1, -(2**31), *draw.integers(-(2**31), 2**31, 40)]
    steps = [0, 1, 2, 3, 10**6, *draw.integers(0, 10**6, 40)]
    found = uniform(tf.constant(seeds, tf.int32), tf.constant(steps, tf.int32)).numpy()
    for seed, step, value in zip(seeds, steps, found, strict=True):
        expected = tf.random.stateless_uniform([], [seed, step], alg="philox")
        assert value == expected.numpy()


def test_token_ids(tokenizer):
    ids = build_encoder(tokenizer)(characters_of(LINES))
    expected = [found.tolist() for found in tokenizer.encode_many(LINES)]
    assert rows_of(ids) == expected


def test_the_end_token_in_a_prompt():
    """It is found in the text of an imported GPT-2. Other added tokens are refused."""
    plain = tokenizer_of("gpt2")
    end, chat = (AddedToken(plain.end_id, "<|endoftext|>"), AddedToken(plain.end_id + 1, "<user>"))
    special = {end.content: end.id, chat.content: chat.id}
    arguments = plain.encoder, plain.merges, special, plain.end_id, None
    parts = [end.content, end.content[:-1], "|>", " ", "  ", "\n", "the", "'", "s", "...", "1", "é"]
    draw = np.random.default_rng(0)
    lines = ["".join(draw.choice(parts, draw.integers(0, 9))) for _ in range(1000)]
    tokenizer = GPT2Tokenizer(*arguments, added=[end])
    assert encoder_problem(tokenizer) is None
    ids = build_encoder(tokenizer)(characters_of(lines))
    expected = [found.tolist() for found in tokenizer.encode_many(lines)]
    assert rows_of(ids) == expected
    assert sum(line.count(end.id) for line in expected) > 300
    problem = "the tokenizer has added tokens, such as '<user>': only the end token is supported"
    assert encoder_problem(GPT2Tokenizer(*arguments, added=[end, chat])) == problem
    problem = "the tokenizer splits text as Qwen3 does: is not supported"
    assert encoder_problem(GPT2Tokenizer(*arguments, splitting="qwen2")) == problem


# Bytes on both sides of every limit of table 3-7 of The Unicode Standard.
BYTES = bytes.fromhex("417f8090 8f9fa0bf c1c2dfe0 e1edeeef f0f1f4f5 ff106162")


def test_bytes_that_are_not_utf8():
    draw = np.random.default_rng(0)
    rows = [bytes(draw.choice(list(BYTES), draw.integers(0, 9)).tolist()) for _ in range(5000)]
    found = valid_utf8(tf.constant(padded(rows)))
    vocabulary = tokenizer_of("character")
    expected = [list(vocabulary.decode_bytes(row).encode()) for row in rows]
    assert rows_of(found) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_continuations(kind):
    """Ids in any order: bytes alone, escape characters, end tokens, unknown words."""
    tokenizer = tokenizer_of(kind)
    draw = np.random.default_rng(0)
    hot = [i for i, piece in enumerate(tokenizer.pieces) if len(piece) < 2 or i < 8]
    prompts, new = (
        [draw.choice(hot, draw.integers(0, size)).tolist() for _ in range(2000)] for size in (6, 8)
    )
    both = [a + b for a, b in zip(prompts, new, strict=True)]
    found = Detokenizer(tokenizer).continuation(
        tf.constant(padded(prompts)), tf.constant(padded(both))
    )
    pairs = zip(prompts, new, strict=True)
    expected = [list(tokenizer.continuation(*pair).encode()) for pair in pairs]
    assert rows_of(found) == expected


def characters_of(lines):
    """int32[B, N], the code points of lines."""
    return tf.constant(padded([[ord(c) for c in line] for line in lines]))


def test_real_text(shared_data):
    """Thousands of lines: English plays, and English and German sentences."""
    lines = (shared_data / "shakespeare.txt").read_text(encoding="utf-8").splitlines()[:3000]
    pairs = (shared_data / "eng-deu.tsv").read_text(encoding="utf-8").splitlines()
    lines += pairs[:: len(pairs) // 3000]
    files = [(shared_data / "gpt2" / name).read_bytes() for name in ("encoder.json", "vocab.bpe")]
    learned = (
        learn_tokenizer(lines, tokenizer_config(kind=kind, vocab_size=2000, lowercase=lowercase))
        for kind in ("byte_pair", "word", "character")
        for lowercase in (False, True)
    )
    for tokenizer in (GPT2Tokenizer.from_files(*files), *learned):
        encode = tf.function(build_encoder(tokenizer), [tf.TensorSpec([None, None], tf.int32)])
        for start in range(0, len(lines), 1000):
            some = lines[start : start + 1000]
            found = rows_of(encode(characters_of(some)))
            assert found == [ids.tolist() for ids in tokenizer.encode_many(some)]


def test_merges_in_another_order_have_no_form_in_onnx():
    tokenizer = tokenizer_of("gpt2")
    assert encoder_problem(tokenizer) is None
    tokenizer.merges.reverse()
    assert "order" in encoder_problem(tokenizer)


class Opened:
    """The graph in onnxruntime, and minigpt's own loop without XLA."""

    def __init__(self, model, tokenizer, weights="float32"):
        onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
        from minigpt.targets.onnx.text.writing import build_text_graph

        graph = build_text_graph(CachedStep(model), tokenizer, weights)
        self.session = onnxruntime.InferenceSession(graph.SerializeToString())
        self.tokenizer = tokenizer
        step_model = CachedGPT(model, jit_compile=False)
        self.decoder = Decoder(step_model, tokenizer.end_id, tokenizer.never_sampled_ids)

    def run(self, prompts, *settings, **more) -> list[np.ndarray]:
        types = ("int32", "float32", "int32", "float32", "int32")
        names = ("max_new_tokens", "temperature", "top_k", "top_p", "seed")
        numbers = zip(names, settings, types, strict=True)
        inputs = {name: np.array(value, dtype) for name, value, dtype in numbers}
        inputs |= {name: np.array(value, "float32") for name, value in more.items()}
        return self.session.run(None, {"prompt": np.array(prompts, object), **inputs})

    def expected(self, prompts, count, temperature, top_k, top_p, seed, **more) -> list[str]:
        encoded = [ids.tolist() for ids in self.tokenizer.encode_many(prompts)]
        ids, lengths = self.decoder.generate(
            np.maximum(padded([*encoded, [0]])[:-1], 0),
            np.array([len(ids) for ids in encoded], np.int32),
            count,
            SamplingSettings(temperature, top_k, top_p, **more).as_tensors(),
            np.full(len(prompts), seed, np.int32),
            np.zeros(0, np.int32),
        )
        new = [row[:length] for row, length in zip(ids.numpy(), lengths.numpy(), strict=True)]
        return [self.tokenizer.continuation(*pair) for pair in zip(encoded, new, strict=True)]


@pytest.fixture(scope="module")
def opened(tiny_run) -> Opened:
    return Opened(tiny_run.load_model(), tiny_run.load_tokenizer())


# max_new_tokens, temperature, top_k, top_p, seed. The context has 16 tokens.
SETTINGS = {
    "greedy": (10, 0.0, 0, 1.0, 0),
    "beyond the context": (40, 0.0, 0, 1.0, 0),
    "sampled": (40, 1.0, 0, 1.0, 3),
    "few candidates": (12, 0.8, 20, 0.9, -5),
    "out of range": (12, float("nan"), -3, 7.0, 1),
    "no candidates": (12, 2.0, 0, -1.0, 1),
    "nothing": (0, 1.0, 0, 1.0, 1),
    "less than nothing": (-3, 1.0, 0, 1.0, 1),
}
BATCHES = {
    "one": ["Ana sat on"],
    "several": ["Béla", "", "Dirk sat on the hill and ate", "\x10\u2581 \0?"],
    "longer than the context": ["Ana sat on the hill. " * 20, "Ana"],
    "none": [],
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("prompts", BATCHES.values(), ids=BATCHES)
def test_texts_are_those_of_the_run(opened, prompts, settings):
    texts, prompt_ids = opened.run(prompts, *settings)
    assert texts.tolist() == opened.expected(prompts, *settings)
    expected = [ids.tolist() for ids in opened.tokenizer.encode_many(prompts)]
    assert rows_of(prompt_ids) == expected


@pytest.mark.parametrize("typical_p", [0.2, 0.9, 1.0, 0.0])
@pytest.mark.parametrize("settings", ["sampled", "few candidates"])
def test_typical_p_is_that_of_the_run(opened, settings, typical_p):
    prompts, more = BATCHES["several"], {"typical_p": typical_p}
    texts, _ = opened.run(prompts, *SETTINGS[settings], **more)
    assert texts.tolist() == opened.expected(prompts, *SETTINGS[settings], **more)
    # Programs that do not know the setting need not give it.
    without, _ = opened.run(prompts, *SETTINGS[settings])
    assert (without.tolist() == texts.tolist()) == (typical_p == 1)


def test_every_character(opened):
    """Hashes are inverted: each code point has its own bytes."""
    text = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    parts = [text[start : start + 2000] for start in range(0, len(text), 2000)]
    # Most characters have no token of their own, and are encoded as bytes.
    for start in range(0, len(parts), 140):
        some = parts[start : start + 140]
        prompt_ids = opened.run(some, 0, 0.0, 0, 1.0, 0)[1]
        expected = [ids.tolist() for ids in opened.tokenizer.encode_many(some)]
        assert rows_of(prompt_ids) == expected


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["float16", "int8"])
@pytest.mark.parametrize("variant", [*VARIANTS[1::2], ("gpt2", False)], ids=str)
def test_kinds_and_weights(variant, weights):
    tokenizer = tokenizer_of(*variant)
    sizes = {"max_len": 16, "embed_dim": 32, "num_heads": 2, "num_layers": 1}
    settings = load_config({"model": sizes})
    keras.utils.set_random_seed(1)
    model = build_gpt(settings.model, tokenizer.vocab_size)
    opened = Opened(model, tokenizer, weights)
    texts, prompt_ids = opened.run(LINES, 3, 0.0, 0, 1.0, 0)
    assert rows_of(prompt_ids) == [ids.tolist() for ids in tokenizer.encode_many(LINES)]
    assert len(texts) == len(LINES)
