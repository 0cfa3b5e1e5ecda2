"""GPT-2's tokenizer in operators that ONNX has."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.targets.onnx.text.letters import members
from minigpt.targets.onnx.text.merging import PairTable, merge
from minigpt.targets.onnx.text.rows import NOTHING, compact, flat
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.gpt2_files import token_bytes
from minigpt.tokenizers.splitting import WHITE_SPACE
from minigpt.tokenizers.unicode_tables import ranges

# The classes of characters in the published pattern; padding is white space.
_SPACE, _LETTER, _NUMBER, _SIGN = range(4)
_CONTRACTIONS = ("s", "t", "m", "d", "re", "ve", "ll")


def build_gpt2(tokenizer: GPT2Tokenizer) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Returns the tokenizer as a function; see `encoders.Encoder`."""
    ids = {tokenizer.pieces[i]: i for i in tokenizer.encoder.values()}
    byte_ids = np.array([ids[bytes([byte])] for byte in range(256)], np.int32)
    pairs = {}
    for rank, merged in enumerate(tokenizer.merges):
        left, right = map(token_bytes, merged)
        pairs[ids[left], ids[right]] = (rank, ids[left + right])
    # Between two words is an id that does not merge.
    boundary = tokenizer.vocab_size
    table = PairTable(pairs, boundary + 1, boundary + 1) if pairs else None
    classes = [members(ranges("L")), members(ranges("N")), members(WHITE_SPACE)]

    def encode(code_points: Any, utf8: Any) -> tuple[Any, Any]:
        code_points, ends = _without_end_tokens(tokenizer, code_points)
        letter, number, space = (each.look_up(code_points) == 1 for each in classes)
        kinds = tf.where(letter, _LETTER, tf.where(number, _NUMBER, _SIGN))
        kinds = tf.where(space | (code_points == NOTHING), _SPACE, kinds)
        starts = tf.where(_word_starts(code_points, kinds), boundary, NOTHING)
        is_byte = code_points[:, :, None] >= [0, 0x80, 0x800, 0x10000]
        data = tf.where(is_byte, tf.gather(tf.constant(byte_ids), utf8), NOTHING)
        symbols, _ = compact(flat(tf.concat([starts[:, :, None], ends, data], axis=2)))
        found = symbols if table is None else merge(symbols, table)
        return compact(tf.where(found == boundary, NOTHING, found))

    return encode


def has_ordered_merges(tokenizer: GPT2Tokenizer) -> bool:
    """Returns whether every merge is of tokens that earlier merges make, as in a learned vocabulary."""
    rank = {left + right: i for i, (left, right) in enumerate(tokenizer.merges)}
    return all(rank.get(part, -1) < i for i, pair in enumerate(tokenizer.merges) for part in pair)


def unsupported_token(tokenizer: GPT2Tokenizer) -> str | None:
    """Returns the text of an added token that the graph cannot find; None if there is none.

    The graph finds the end token, if no two occurrences of its text can overlap.
    """
    for token in tokenizer.added:
        text = token.content
        overlaps = any(text.startswith(text[i:]) for i in range(1, len(text)))
        flags = token.single_word or token.lstrip or token.rstrip
        if token.id != tokenizer.end_id or flags or overlaps:
            return text
    return None


def _without_end_tokens(tokenizer: GPT2Tokenizer, code_points: Any) -> tuple[Any, Any]:
    """Returns the code points with padding in place of end tokens, and their ids, int32[B, N, A]."""
    columns = []
    for token in tokenizer.added:
        found = tf.fill(tf.shape(code_points), True)
        for place, character in enumerate(token.content):
            found &= _shifted(code_points, place, NOTHING) == ord(character)
        columns.append(tf.where(found, token.id, NOTHING))
        for place in range(len(token.content)):
            code_points = tf.where(_shifted_flags(found, -place), NOTHING, code_points)
    ids = tf.stack(columns, axis=2) if columns else code_points[:, :, None][:, :, :0]
    return code_points, ids


def _word_starts(code_points: Any, kinds: Any) -> Any:
    r"""Returns bool[B, N], whether a word begins at each character.

    The published pattern, 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+, cuts
    a text where the class of the characters changes. A space belongs to the word behind it. Of several
    white spaces before a word, the last one is cut off. A contraction begins where a word would begin.
    """
    before, after = _shifted(kinds, -1, NOTHING), _shifted(kinds, 1, _SPACE)
    is_space = kinds == _SPACE
    ends_space = is_space & (after != _SPACE)
    joins_next = ends_space & (code_points == ord(" "))
    starts = tf.where(is_space, ends_space | (before != _SPACE), before != kinds)
    starts &= is_space | ~_shifted_flags(joins_next, -1)
    apostrophe = starts & (code_points == ord("'"))
    for letters in _CONTRACTIONS:
        found = apostrophe
        for place, letter in enumerate(letters, 1):
            found &= _shifted(code_points, place, NOTHING) == ord(letter)
        starts &= ~_shifted_flags(found, -1)
        starts |= _shifted_flags(found, -1 - len(letters))
    return starts & (code_points != NOTHING)


def _shifted(values: Any, offset: int, filling: int) -> Any:
    """Returns for each place of int32[B, N] what is `offset` places later."""
    padding = [[0, 0], [max(-offset, 0), max(offset, 0)]]
    padded = tf.pad(values, padding, constant_values=filling)
    return padded[:, max(offset, 0) :][:, : tf.shape(values)[1]]


def _shifted_flags(flags: Any, offset: int) -> Any:
    return _shifted(tf.cast(flags, tf.int32), offset, 0) == 1
