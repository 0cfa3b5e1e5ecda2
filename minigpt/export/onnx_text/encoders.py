"""Tokenizers as functions from characters to token ids, one builder for each kind."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.export.onnx_text.merging import PairTable, merge
from minigpt.export.onnx_text.rows import NOTHING, CodePointTable, compact, flat
from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.closed_character import ClosedCharacterTokenizer
from minigpt.tokenizers.escapes import SPACE, escaped, ESCAPE

# (code points int32[B, N], UTF-8 int32[B, N, 4]) → int32[B, T], NOTHING behind a shorter text; and int32[B].
Encoder = Callable[[Any, Any], tuple[Any, Any]]


def build_encoder(tokenizer: Tokenizer) -> Encoder:
    """Returns the tokenizer as a function; its arguments are the results of `characters`.

    Args:
      tokenizer: one without an `encoder_problem`.
    """
    return BUILDERS[type(tokenizer)](tokenizer)


def encoder_problem(tokenizer: Tokenizer) -> str | None:
    """Returns why a tokenizer has no form in ONNX; None if it has one."""
    if type(tokenizer) not in BUILDERS:
        return f"tokenizer.kind = {tokenizer.kind!r}: is not supported"
    if tokenizer.lowercase:
        return "tokenizer.lowercase = true: is not supported"
    return None


def _byte_pair(tokenizer: BytePairTokenizer) -> Encoder:
    ids, merges = tokenizer.vocabulary_and_merges()
    byte_ids = {byte: ids[f"<0x{byte:02X}>"] for byte in range(256)}
    # What the text contains in place of a space is U+2581, which is escaped.
    known = {
        ord(" ") if piece == SPACE else ord(piece): i
        for piece, i in ids.items()
        if len(piece) == 1 and piece != ESCAPE
    }
    known_ids = known | {ord(SPACE): NOTHING, ord(ESCAPE): NOTHING}
    escape_id = ids.get(ESCAPE, byte_ids[ord(ESCAPE)])
    sequences = {
        ord(character): [escape_id, *(known.get(ord(c), byte_ids[ord(c)]) for c in escaped(character)[1:])]
        for character in (SPACE, ESCAPE)
    }
    pairs = {
        (ids[left], ids[right]): (rank, ids[left + right])
        for rank, (left, right) in enumerate(merges)
    }
    characters = _Characters(known_ids, byte_ids, sequences)
    if not pairs:
        return lambda code_points, utf8: compact(characters.ids(code_points, utf8))
    table = PairTable(pairs, tokenizer.vocab_size)
    return lambda code_points, utf8: compact(
        merge(compact(characters.ids(code_points, utf8))[0], table)
    )


def _character(tokenizer: CharacterTokenizer) -> Encoder:
    first = tokenizer.byte_ids[-1] + 1
    known = {ord(character): i for i, character in enumerate(tokenizer.characters, first)}
    byte_ids = {byte: i for byte, i in enumerate(tokenizer.byte_table.tolist()) if i >= 0}
    characters = _Characters(known, byte_ids)
    return lambda code_points, utf8: compact(characters.ids(code_points, utf8))


def _closed_character(tokenizer: ClosedCharacterTokenizer) -> Encoder:
    pieces = enumerate(tokenizer.pieces)
    table = CodePointTable({ord(piece.decode()): i for i, piece in pieces if piece})

    def encode(code_points: Any, utf8: Any) -> tuple[Any, Any]:
        ids = table.look_up(code_points)
        is_unknown = (ids == NOTHING) & (code_points >= 0)
        return compact(tf.where(is_unknown, tokenizer.unknown_id, ids))

    return encode


BUILDERS: dict[type, Callable[[Any], Encoder]] = {
    BytePairTokenizer: _byte_pair,
    CharacterTokenizer: _character,
    ClosedCharacterTokenizer: _closed_character,
}


class _Characters:
    """Ids of single characters: one, those of its bytes, or those of its escape sequence.

    Args:
      known: code point → id.
      byte_ids: byte → id, of those that other characters contain.
      sequences: code point → up to four ids.
    """

    def __init__(
        self,
        known: Mapping[int, int],
        byte_ids: Mapping[int, int],
        sequences: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self._known = CodePointTable(known)
        self._byte_ids = np.full(256, NOTHING, np.int32)
        self._byte_ids[list(byte_ids)] = list(byte_ids.values())
        self._sequences = sequences or {}

    def ids(self, code_points: Any, utf8: Any) -> Any:
        """int32[B, N], int32[B, N, 4] → int32[B, 4·N], NOTHING in many places."""
        starts = [0, 0x80, 0x800, 0x10000]
        ids = tf.where(
            code_points[:, :, None] >= starts,
            tf.gather(tf.constant(self._byte_ids), utf8),
            NOTHING,
        )
        known = self._known.look_up(code_points)[:, :, None]
        alone = tf.pad(known, [[0, 0], [0, 0], [0, 3]], constant_values=NOTHING)
        ids = tf.where(known != NOTHING, alone, ids)
        for code_point, sequence in self._sequences.items():
            padded = [*sequence, *[NOTHING] * (4 - len(sequence))]
            ids = tf.where(code_points[:, :, None] == code_point, padded, ids)
        return flat(ids)
