"""Token ids to the bytes of their text, in operators that ONNX has."""

from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.targets.onnx.text.rows import NOTHING, compact, flat, lengths_of, padded_to, shifted
from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.vocabulary import ESCAPE, ESCAPED_ESCAPE, ESCAPED_SPACE, SPACE

_REPLACEMENT = tuple("\ufffd".encode())
_ESCAPE = ord(ESCAPE)


class Detokenizer:
    """Decodes ids to bytes of UTF-8 as `Vocabulary.decode` decodes them to text.

    Args:
      tokenizer: the tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        lengths = [len(piece) for piece in tokenizer.pieces]
        self._lengths = np.array(lengths, np.int32)
        self._starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int32)
        # What is read behind the last piece.
        padding = bytes(max(lengths))
        self._bytes = np.frombuffer(b"".join(tokenizer.pieces) + padding, np.uint8)
        self._separator = list(tokenizer.separator)
        self._has_escapes = isinstance(tokenizer, BytePairTokenizer)

    def decode(self, ids: Any) -> Any:
        """Returns the bytes of texts.

        Args:
          ids: int32[B, T], shorter rows padded with NOTHING.
        Returns:
          int32[B, N], shorter rows padded with NOTHING.
        """
        data = valid_utf8(self._joined(ids))
        return _unescaped(data) if self._has_escapes else data

    def continuation(self, prompt: Any, both: Any) -> Any:
        """Returns the bytes that new ids add to a prompt: decode(both) without decode(prompt).

        Args:
          prompt: int32[B, P], shorter rows padded with NOTHING.
          both: int32[B, T], the same followed by new ids.
        Returns:
          int32[B, N], shorter rows padded with NOTHING.
        """
        data, starts = self.decode(both), lengths_of(self.decode(prompt))
        is_new = tf.range(tf.shape(data)[1]) >= starts[:, None]
        return compact(tf.where(is_new, data, NOTHING))

    def _joined(self, ids: Any) -> Any:
        known = tf.maximum(ids, 0)
        lengths = tf.where(ids >= 0, tf.gather(tf.constant(self._lengths), known), 0)
        places = tf.range(tf.reduce_max(lengths))
        starts = tf.gather(tf.constant(self._starts), known)
        pieces = tf.gather(tf.constant(self._bytes), starts[:, :, None] + places)
        is_byte = places < lengths[:, :, None]
        pieces = tf.where(is_byte, tf.cast(pieces, tf.int32), NOTHING)
        if self._separator:
            # Before every piece with text but the first one.
            has_text = tf.cast(lengths > 0, tf.int32)
            is_later = (has_text > 0) & (tf.cumsum(has_text, axis=1) > 1)
            separator = tf.where(is_later[:, :, None], self._separator, NOTHING)
            pieces = tf.concat([separator, pieces], axis=2)
        return compact(flat(pieces))


def valid_utf8(data: Any) -> Any:
    """Replaces bytes that are not UTF-8, as Python's incremental decoder does.

    A first byte begins a character, with as many of the bytes behind it as continue it: The Unicode
    Standard, table 3-7. A character that is not complete becomes one U+FFFD, at the end nothing.

    Args:
      data: int32[B, N], bytes, shorter rows padded with NOTHING.
    Returns:
      int32[B, M], the bytes of the texts, shorter ones padded with NOTHING.
    """
    first, second, third, fourth = (shifted(data, i) for i in range(4))
    needed = 1 + sum(tf.cast(_between(first, low, 0xF4), tf.int32) for low in (0xC2, 0xE0, 0xF0))
    low = tf.where(first == 0xE0, 0xA0, tf.where(first == 0xF0, 0x90, 0x80))
    high = tf.where(first == 0xED, 0x9F, tf.where(first == 0xF4, 0x8F, 0xBF))
    follows = (needed > 1) & _between(second, low, high)
    # How many bytes at this place belong together, if a character begins here.
    size = 1 + tf.cast(follows, tf.int32)
    for more, byte in ((3, third), (4, fourth)):
        follows &= (needed >= more) & _between(byte, 0x80, 0xBF)
        size += tf.cast(follows, tf.int32)

    place, end = tf.range(tf.shape(data)[1]), lengths_of(data)[:, None]
    is_last = place + size == end
    # The decoder waits for the third byte of a surrogate.
    is_surrogate = (first == 0xED) & _between(second, 0xA0, 0xBF) & (place + 2 == end)
    is_cut = (needed > size) & (is_last | is_surrogate)
    is_whole = (needed == size) & ((first < 0x80) | (needed > 1))
    # 1: belongs to a whole character; 2: to what is left out; 3: to one that is replaced before this byte.
    state = tf.where(is_whole, 1, tf.where(is_cut, 2, 3))
    covered = tf.where(is_cut & is_surrogate, 2, size)
    inside = tf.zeros_like(data)
    for back in (1, 2, 3):
        reaches = shifted(covered, -back, 0) > back
        inside = tf.where(reaches, shifted(state, -back, 0), inside)
    begins = inside == 0
    keeps = tf.where(begins, state, inside) == 1
    replaced = begins & (state == 3) & (data != NOTHING)
    alone = tf.pad(data[:, :, None], [[0, 0], [0, 0], [0, 2]], constant_values=NOTHING)
    out = tf.where(keeps[:, :, None], alone, NOTHING)
    out = tf.where(replaced[:, :, None], _REPLACEMENT, out)
    return compact(flat(out))


def _unescaped(data: Any) -> Any:
    """Undoes the escaping of byte-pair text; an incomplete sequence at the end is left out."""
    behind, ahead = shifted(data, -1, 0), shifted(data, 1)
    endings = {ord(ESCAPED_ESCAPE[1]): ESCAPE, ord(ESCAPED_SPACE[1]): SPACE}
    is_end = tf.zeros_like(data, tf.bool)
    out = tf.pad(data[:, :, None], [[0, 0], [0, 0], [0, 2]], constant_values=NOTHING)
    for ending, character in endings.items():
        is_end |= (behind == _ESCAPE) & (data == ending)
        starts = (data == _ESCAPE) & (ahead == ending)
        out = tf.where(starts[:, :, None], padded_to(3, character.encode()), out)
    is_cut = (data == _ESCAPE) & (ahead == NOTHING)
    out = tf.where((is_end | is_cut)[:, :, None], NOTHING, out)
    return compact(flat(out))


def _between(values: Any, low: Any, high: Any) -> Any:
    return (values >= low) & (values <= high)
