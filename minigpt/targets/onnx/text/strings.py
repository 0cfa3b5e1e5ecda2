"""The two ends of the graph, which compute with strings: characters to hashes, bytes to texts."""

from typing import Any

import tensorflow as tf

from minigpt.targets.onnx.text.characters import SEEDS
from minigpt.targets.onnx.text.rows import NOTHING

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
        # Of no texts, Tokenizer makes no columns, and other operators fail.
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
