"""Imported tokenizers, in Python and in TensorFlow, against the tokenizers package."""

import json
import random

import pytest
import tensorflow as tf

from minigpt.errors import UserError
from minigpt.targets.gguf.tokenizer_tables import llama_vocabulary
from minigpt.targets.huggingface.tokenizer_export import tokenizer_files
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.huggingface import HuggingFaceTokenizer
from tests.graphs import graph_of
from tests.mixed_lines import code, scraps

tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")

from tests.targets.huggingface.tokenizers_package import (  # noqa: E402
    END,
    QWEN3_OTHERS,
    QWEN3_SPECIAL,
    add,
    gpt2_tokenizer,
    imported,
    qwen3_tokenizer,
)

# Characters that the pattern, NFC or added tokens treat in a way of their own.
SIGNS = "aZé'sSſKtrevlmdD\u212a 1²٣\t\n\r\u00a0\u2003\u3000\x85\x1c!.-_’\"\0\u0301\u0323\u0315ö東한"
SIGNS += "ᄀ\u1161\u11a8\u0344\u0958\u1e9b\ufb1d\u2126\U0001d15e\U0001f600"
SIGNS += "\u0897\u1ac1\U00011938\U000105d2\U00011935\U00011930"
FLAGGED = {
    "<user>": {},
    "<bot>": {"special": True},
    "<bot><x>": {},
    "word": {},
    "ord": {"normalized": False},
    "ab c": {},
    "\n\n": {"normalized": False},
    "é\u0301": {},
    "<é>": {"special": True, "normalized": True},
    "¡n¡": {},
}


def joined(parts: list[str], count: int, seed: int) -> list[str]:
    """Returns texts of random parts."""
    draw = random.Random(seed)
    return ["".join(draw.choices(parts, k=draw.randrange(12))) for _ in range(count)]


def check(ours: GPT2Tokenizer, theirs, lines: list[str]) -> None:
    """Compares the ids, and the text that they are decoded to."""
    expected = [encoding.ids for encoding in theirs.encode_batch(lines)]
    encoded = [ids.tolist() for ids in ours.encode_many(lines)]
    for line, found, right in zip(lines, encoded, expected, strict=True):
        assert found == right, (line, found, right)
    graph = graph_of(ours).encode(tf.constant(lines)).to_list()
    for line, found, right in zip(lines, graph, expected, strict=True):
        assert found == right, (line, found, right)
    without_end = [[i for i in ids if i != ours.end_id] for ids in expected]
    right = theirs.decode_batch(without_end, skip_special_tokens=False)
    assert [ours.decode(ids) for ids in without_end] == right
    ragged = tf.ragged.constant(without_end, tf.int32, inner_shape=())
    assert [text.decode() for text in graph_of(ours).decode(ragged).numpy()] == right


@pytest.fixture(scope="module")
def qwen3():
    return qwen3_tokenizer()


def test_the_tokenizer_of_qwen3(qwen3, tmp_path):
    ours = imported(qwen3, tmp_path / "folder", "<|im_end|>")
    assert ours.end_id == qwen3.token_to_id("<|im_end|>")
    contents = [*QWEN3_SPECIAL, *QWEN3_OTHERS]
    lines = code(500, 2) + scraps(1500, 3) + joined([*SIGNS], 4000, 4)
    lines += joined([*SIGNS, *contents, "hello", "  "], 1500, 5)
    check(ours, qwen3, lines)
    chat = "<|im_start|>user\nIt's 12 o'clock.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    check(ours, qwen3, [chat])
    assert ours.encode(chat).tolist().count(ours.end_id) == 1
    assert ours.never_sampled_ids == ()


@pytest.mark.slow
def test_the_tokenizer_of_qwen3_on_every_code_point(qwen3, tmp_path):
    ours = imported(qwen3, tmp_path / "folder")
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for start in range(0, len(points), 100_000):
        lines = [
            f"a{c} {c}1{c}\n{c}!{c}  {c}'{c}\u0323\u0307" for c in points[start : start + 100_000]
        ]
        expected = [encoding.ids for encoding in qwen3.encode_batch(lines)]
        assert [ids.tolist() for ids in ours.encode_many(lines)] == expected
        if start in (0, 100_000):  # The planes with letters, marks and signs.
            assert graph_of(ours).encode(tf.constant(lines)).to_list() == expected


@pytest.mark.parametrize("name", ["gpt2", "qwen3"])
def test_added_tokens_with_every_flag(name, qwen3, tmp_path):
    theirs = tokenizers.Tokenizer.from_str(qwen3.to_str()) if name == "qwen3" else gpt2_tokenizer()
    for content, flags in FLAGGED.items():
        add(theirs, [content], **flags)
    ours = imported(theirs, tmp_path / "folder")
    parts = [*FLAGGED, END, "  ", "word", *" \naxé\u0301_\u200d!1"]
    check(ours, theirs, joined(parts, 4000, 6) + code(200, 7) + scraps(500, 8))
    ours.save(tmp_path / "saved")
    opened = Tokenizer.load(tmp_path / "saved")
    assert opened.fingerprint() == ours.fingerprint()
    assert opened.added == ours.added and opened.pieces == ours.pieces
    # Written back with the same flags and ids.
    again = json.loads(tokenizer_files(ours, 8)["tokenizer.json"])
    before = json.loads(theirs.to_str())
    assert again["added_tokens"] == before["added_tokens"]
    check(ours, tokenizers.Tokenizer.from_str(json.dumps(again)), joined(parts, 500, 9))


def test_added_tokens_in_llama(tmp_path):
    theirs = gpt2_tokenizer()
    add(theirs, ["<user>"])
    add(theirs, ["<pad>"], special=True)
    vocabulary = llama_vocabulary(imported(theirs, tmp_path / "plain"))
    assert vocabulary is not None
    assert vocabulary.tokens[-3:] == [END, "<user>", "<pad>"]
    assert [kind.name for kind in vocabulary.types[-3:]] == ["CONTROL", "USER_DEFINED", "CONTROL"]


def test_added_tokens_with_other_flags_are_left_to_the_tokenizers_package(tmp_path):
    theirs = gpt2_tokenizer()
    add(theirs, ["<mask>"], lstrip=True)
    with pytest.raises(UserError, match="<mask>"):
        imported(theirs, tmp_path / "folder")
    file = tmp_path / "folder" / "tokenizer.json"
    ours = HuggingFaceTokenizer.from_file(file)
    assert type(ours) is HuggingFaceTokenizer
    assert ours.encode("a  <mask>b").tolist() == theirs.encode("a  <mask>b").ids
