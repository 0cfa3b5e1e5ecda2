"""The word tokenizer in operators that ONNX has."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.targets.onnx.text.letters import members
from minigpt.targets.onnx.text.merging import NO_RANK, PairTable
from minigpt.targets.onnx.text.rows import NOTHING, CodePointTable, compact
from minigpt.tokenizers.unicode_tables import ranges
from minigpt.tokenizers.word import SPECIAL_TOKENS, WHITE_SPACE, WordTokenizer

_OTHER_SPACES = [(0x09, 0x0D), (0x1C, 0x1F), (0x85, 0x85)]
# \p{Z} in WHITE_SPACE.
_SEPARATORS = [c for c in range(0x3001) if chr(c).isspace() and c > 0x85] + [0x20]


def build_word(tokenizer: WordTokenizer) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Returns the tokenizer as a function; see `encoders.Encoder`.

    A word is looked up in a tree of all words, one character after the other.
    """
    assert WHITE_SPACE == r"[\t-\r\x1c-\x1f\x{85}\p{Z}]+"
    spaces = members(_OTHER_SPACES + [(c, c) for c in _SEPARATORS])
    marks = members(ranges("P", "S"))
    words = [piece.decode() for piece in tokenizer.pieces[SPECIAL_TOKENS:]]
    letters = {ord(c): i for i, c in enumerate(sorted({c for word in words for c in word}))}
    children: dict[tuple[int, int], tuple[int, int]] = {}
    id_of_node = [tokenizer.unknown_id]
    for i, word in enumerate(words, SPECIAL_TOKENS):
        node = 0
        for character in word:
            step = (node, letters[ord(character)])
            if step not in children:
                children[step] = (0, len(id_of_node))
                id_of_node.append(tokenizer.unknown_id)
            node = children[step][1]
        id_of_node[node] = i
    ids = np.array(id_of_node, np.int32)
    known = CodePointTable(letters)
    table = PairTable(children, len(ids), len(letters)) if children else None

    def encode(code_points: Any, utf8: Any) -> tuple[Any, Any]:
        is_mark = marks.look_up(code_points) == 1
        is_letter = ~is_mark & (spaces.look_up(code_points) != 1) & (code_points != NOTHING)
        inside = tf.pad(is_letter[:, :-1], [[0, 0], [1, 0]])[:, : tf.shape(code_points)[1]]
        starts = is_mark | (is_letter & ~inside)
        # int32[B, W], the place of the first character of each word.
        places = tf.range(tf.shape(code_points)[1])[None]
        first, counts = compact(tf.where(starts, places, NOTHING))
        is_word = first != NOTHING
        mark = (
            tf.gather(tf.cast(is_mark, tf.int32), tf.maximum(first, 0), axis=1, batch_dims=1) == 1
        )
        if table is None:
            return tf.where(is_word, tokenizer.unknown_id, NOTHING), counts

        # One column more is behind every text.
        flags = tf.pad(tf.cast(is_letter, tf.int32), [[0, 0], [0, 1]])
        characters = known.look_up(code_points)
        characters = tf.pad(characters, [[0, 0], [0, 1]], constant_values=NOTHING)
        last = tf.shape(code_points)[1]

        def follow(place: Any, node: Any, reads: Any) -> tuple[Any, Any, Any]:
            column = tf.minimum(tf.maximum(first, 0) + place, last)
            character = tf.gather(characters, column, axis=1, batch_dims=1)
            rank, child = table.look_up(node, character)
            # No word has this beginning: -1.
            child = tf.where(rank == NO_RANK, NOTHING, child)
            node = tf.where(reads, child, node)
            after = tf.minimum(column + 1, last)
            goes_on = tf.gather(flags, after, axis=1, batch_dims=1) == 1
            return place + 1, node, reads & goes_on & ~mark

        any_shape = tf.TensorShape([None, None])
        _, node, _ = tf.while_loop(
            lambda place, node, reads: tf.reduce_any(reads),
            follow,
            (tf.constant(0), tf.zeros_like(first), is_word),
            shape_invariants=(tf.TensorShape([]), any_shape, any_shape),
        )
        found = tf.where(
            node >= 0, tf.gather(tf.constant(ids), tf.maximum(node, 0)), tokenizer.unknown_id
        )
        return tf.where(is_word, found, NOTHING), counts

    return encode
