"""From strings to characters and back, in operators of ONNX and of ONNX Runtime.

ONNX Runtime has no operator from text to code points, so a hash is inverted. MurmurHash3 (x86, 32 bits;
Appleby 2011) of up to four bytes is invertible: the bytes are multiplied by odd numbers, rotated and
combined by exclusive or. The number of bytes is not known; the right one is that for which two hashes with
different seeds give the same bytes, and these are UTF-8. That no other number fits is tested with every
character.
"""

from typing import Any

import tensorflow as tf

from minigpt.targets.onnx.text.rows import NOTHING
from minigpt.targets.onnx.text.words32 import MASK, low_bits, multiply, rotate_left, xor

SEEDS = (0, 1)
_FACTORS = (0xCC9E2D51, 0x1B873593)
_FINAL_FACTORS = (0x85EBCA6B, 0xC2B2AE35)
_ADDEND = 0xE6546B64
# For characters of 1 to 4 bytes: the number of first bytes, and the lowest one.
_LEADS = (0x80, 0x00), (0x20, 0xC0), (0x10, 0xE0), (0x08, 0xF0)


def characters(hashes: tuple[Any, Any]) -> Any:
    """Returns the characters whose UTF-8 has these hashes.

    Args:
      hashes: int64[B, N] by each of `SEEDS`; those of the empty string behind a shorter text.
    Returns:
      int32[B, N], code points, shorter texts padded with NOTHING.
    """
    code_points = tf.fill(tf.shape(hashes[0]), NOTHING)
    for length in range(1, 5):
        first, second = (_word(h, length, seed) for h, seed in zip(hashes, SEEDS, strict=True))
        fits = tf.equal(first, second) & _is_utf8(first, length)
        code_points = tf.where(fits, tf.cast(_code_point(first, length), tf.int32), code_points)
    return code_points


def _word(hashes: Any, length: int, seed: int) -> Any:
    """Returns the bytes of this hash, the first one lowest, if there are `length` bytes."""
    h = xor(hashes, hashes // 2**16)
    h = multiply(h, _inverse(_FINAL_FACTORS[1]))[1]
    h = xor(xor(h, h // 2**13), h // 2**26)
    h = multiply(h, _inverse(_FINAL_FACTORS[0]))[1]
    h = xor(xor(h, h // 2**16), length)
    if length == 4:  # A whole word, which is mixed once more.
        h = multiply(low_bits(h + (MASK + 1 - _ADDEND), 32), _inverse(5))[1]
        h = rotate_left(h, 32 - 13)
    k = multiply(xor(h, seed), _inverse(_FACTORS[1]))[1]
    return multiply(rotate_left(k, 32 - 15), _inverse(_FACTORS[0]))[1]


def _inverse(factor: int) -> int:
    return pow(factor, -1, MASK + 1)


def _is_utf8(word: Any, length: int) -> Any:
    """Returns whether `length` bytes have the form of a character: The Unicode Standard, table 3-6."""
    values, first = _LEADS[length - 1]
    lead = _byte(word, 0)
    is_valid = (word < 256**length) & (lead >= first) & (lead < first + values)
    for i in range(1, length):
        is_valid &= tf.equal(_byte(word, i) // 64, 2)
    return is_valid


def _code_point(word: Any, length: int) -> Any:
    code_point = _byte(word, 0) - _LEADS[length - 1][1]
    for i in range(1, length):
        code_point = code_point * 64 + _byte(word, i) - 0x80
    return code_point


def _byte(word: Any, number: int) -> Any:
    return low_bits(word // 256**number, 8)


# The domain of ONNX Runtime's operators: Tokenizer, which splits into characters, and MurmurHash3.
RUNTIME_DOMAIN = "com.microsoft"
HASHES = tuple(f"hash_{i}" for i in range(len(SEEDS)))
# The number of the empty string, behind those of the bytes.
_NO_BYTE = 256
# From prompts to HASHES by SEEDS, int64[max(B, 1), N], and rows, B. A shorter text has the hashes of the
# empty string behind it. Without texts, Tokenizer makes no columns, and other operators fail: an empty text
# is added.
_HASHING = """
hashing (string[B] prompt) => (int64[1] rows, int64[?, ?] hash_0, int64[?, ?] hash_1)
<string[1] no_text = {""}, int64[1] zero = {0}, int64[1] one = {1}> {
    rows = Shape(prompt)
    read_rows = Max(rows, one)
    and_one_more = Concat<axis = 0>(prompt, no_text)
    texts = Slice(and_one_more, zero, read_rows)
    characters = com.microsoft.Tokenizer<mark = 0, pad_value = "", separators = [""], mincharnum = 1>(texts)
    word_0 = com.microsoft.MurmurHash3<seed = 0, positive = 1>(characters)
    word_1 = com.microsoft.MurmurHash3<seed = 1, positive = 1>(characters)
    hash_0 = Cast<to = 7>(word_0)
    hash_1 = Cast<to = 7>(word_1)
}
"""
# From bytes int32[max(B, 1), 2^R], rounds R and ids int32[max(B, 1), T] to the outputs of the graph. A
# round joins the strings in pairs.
_JOINING = """
joining (int32[?, ?] bytes, int64 rounds, int32[?, ?] ids) => (string[B] text, int32[B, T] prompt_ids)
<int64[1] two = {2}, int64[1] no_end = {4611686018427387904}> {
    first_parts = Gather(byte_strings, bytes)
    last_parts = Loop <
        body = join (int64 round, bool joins, string[?, ?] parts)
            => (bool joins_again, string[?, ?] joined) {
            even = Slice(parts, zero, no_end, one, two)
            odd = Slice(parts, one, no_end, one, two)
            joined = StringConcat(even, odd)
            joins_again = Identity(joins)
        }
    > (rounds, "", first_parts)
    texts_again = Squeeze(last_parts, one)
    text = Slice(texts_again, zero, rows)
    prompt_ids = Slice(ids, zero, rows)
}
"""


def hashing() -> Any:
    """Returns the graph from prompts to hashes, the arguments of `characters`, and their rows."""
    from onnx import parser

    return parser.parse_graph(_HASHING)


def padded_to_power_of_two(data: Any) -> tuple[Any, Any]:
    """Pads rows of bytes, so that `joining` can join their strings in pairs until one is left.

    Args:
      data: int32[B, N], bytes, shorter rows padded with NOTHING.
    Returns:
      int32[B, 2^R], numbers of strings; and R, int64[].
    """
    width = tf.shape(data)[1]
    powers = tf.constant([2**i for i in range(31)])
    rounds = tf.reduce_sum(tf.cast(width > powers, tf.int32))
    padding = [[0, 0], [0, tf.gather(powers, rounds) - width]]
    data = tf.pad(data, padding, constant_values=NOTHING)
    return tf.where(data == NOTHING, _NO_BYTE, data), tf.cast(rounds, tf.int64)


def joining() -> Any:
    """Returns the graph from the numbers of strings to texts; it uses the constants of `hashing`."""
    from onnx import TensorProto, helper, parser

    graph = parser.parse_graph(_JOINING)
    strings: Any = [*(bytes([byte]) for byte in range(_NO_BYTE)), b""]
    graph.initializer.append(
        helper.make_tensor("byte_strings", TensorProto.STRING, [len(strings)], strings)
    )
    return graph
