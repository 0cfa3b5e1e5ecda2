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
# The padding behind a text.
NO_CHARACTER = -1
# For characters of 1 to 4 bytes: the number of first bytes, and the lowest one.
_LEADS = (0x80, 0x00), (0x20, 0xC0), (0x10, 0xE0), (0x08, 0xF0)


def characters(hashes: tuple[Any, Any]) -> tuple[Any, Any]:
    """Returns the characters whose UTF-8 has these hashes.

    Args:
      hashes: int64[B, N] by each of `SEEDS`; those of the empty string behind a shorter text.
    Returns:
      int32[B, N], code points, or NO_CHARACTER; and int32[B, N, 4], the bytes of their UTF-8, padded
      with 0.
    """
    word, code_point = tf.zeros_like(hashes[0]), tf.fill(tf.shape(hashes[0]), -1)
    for length in range(1, 5):
        first, second = (_word(h, length, seed) for h, seed in zip(hashes, SEEDS, strict=True))
        fits = tf.equal(first, second) & _is_utf8(first, length)
        word = tf.where(fits, first, word)
        code_point = tf.where(fits, tf.cast(_code_point(first, length), tf.int32), code_point)
    utf8 = tf.stack([_byte(word, i) for i in range(4)], axis=2)
    return code_point, tf.cast(utf8, tf.int32)


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


def hashing() -> tuple[list[Any], list[Any]]:
    """Returns nodes and initializers: prompt string[B] → HASHES, int64[max(B, 1), N]; rows int64[1], B.

    A shorter text has the hashes of the empty string behind it.
    """
    from onnx import TensorProto, helper

    split: dict[str, Any] = {"mark": 0, "pad_value": "", "separators": [""], "mincharnum": 1}
    nodes = [
        # Without texts, Tokenizer makes no columns, and other operators fail.
        helper.make_node("Shape", ["prompt"], ["rows"]),
        helper.make_node("Max", ["rows", "one"], ["read_rows"]),
        helper.make_node("Concat", ["prompt", "no_text"], ["and_one_more"], axis=0),
        helper.make_node("Slice", ["and_one_more", "zero", "read_rows"], ["texts"]),
        helper.make_node("Tokenizer", ["texts"], ["characters"], domain=RUNTIME_DOMAIN, **split),
    ]
    for name, seed in zip(HASHES, SEEDS, strict=True):
        word = f"{name}/word"
        settings: dict[str, Any] = {"seed": seed, "positive": 1, "domain": RUNTIME_DOMAIN}
        nodes.append(helper.make_node("MurmurHash3", ["characters"], [word], **settings))
        nodes.append(helper.make_node("Cast", [word], [name], to=TensorProto.INT64))
    return nodes, [_strings("no_text", [b""]), _integers("zero", 0), _integers("one", 1)]


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


def joining() -> tuple[list[Any], list[Any]]:
    """Returns nodes and initializers: from numbers to the outputs.

    The nodes use bytes int32[max(B, 1), 2^R], rounds int64[] and ids int32[max(B, 1), T], and make
    text string[B] and prompt_ids int32[B, T].
    """
    from onnx import TensorProto, helper

    def string_matrix(name: str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.STRING, [None, None])

    def flag(name: str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.BOOL, [])

    body = helper.make_graph(
        [
            helper.make_node("Slice", ["parts", "zero", "no_end", "one", "two"], ["even"]),
            helper.make_node("Slice", ["parts", "one", "no_end", "one", "two"], ["odd"]),
            helper.make_node("StringConcat", ["even", "odd"], ["joined"]),
            helper.make_node("Identity", ["joins"], ["joins_again"]),
        ],
        "join",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, []),
            flag("joins"),
            string_matrix("parts"),
        ],
        [flag("joins_again"), string_matrix("joined")],
    )
    nodes = [
        helper.make_node("Gather", ["byte_strings", "bytes"], ["first_parts"]),
        helper.make_node("Loop", ["rounds", "", "first_parts"], ["last_parts"], body=body),
        helper.make_node("Squeeze", ["last_parts", "one"], ["texts_again"]),
        helper.make_node("Slice", ["texts_again", "zero", "rows"], ["text"]),
        helper.make_node("Slice", ["ids", "zero", "rows"], ["prompt_ids"]),
    ]
    strings = [bytes([byte]) for byte in range(_NO_BYTE)] + [b""]
    initializers = [
        _strings("byte_strings", strings),
        _integers("two", 2),
        _integers("no_end", 2**62),
    ]
    return nodes, initializers


def _integers(name: str, value: int) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor(name, TensorProto.INT64, [1], [value])


def _strings(name: str, values: list[bytes]) -> Any:
    from onnx import TensorProto, helper

    make_tensor: Any = helper.make_tensor
    return make_tensor(name, TensorProto.STRING, [len(values)], values)
