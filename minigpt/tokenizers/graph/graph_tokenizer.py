"""The common code of all tokenizers in a TensorFlow graph: decoding, lower-casing, invalid UTF-8."""

import tensorflow as tf

from minigpt.tokenizers.base import Tokenizer


class GraphTokenizer(tf.Module):
    """A tokenizer in TensorFlow operations, which a SavedModel can contain.

    Gives the same ids and the same text as the `Tokenizer` it is built from. A subclass defines `_ids`
    and, if encoding escapes characters, `_restore`.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._pieces = tf.constant(list(tokenizer.pieces), tf.string)
        self._separator = tokenizer.separator
        self._id_without_text = tokenizer.end_id
        self._lowercase = tokenizer.lowercase

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """string[B] → ragged int32[B, None], without end tokens. Invalid UTF-8 is read as U+FFFD."""
        texts = _valid_utf8(texts)
        return self._ids(_lower(texts) if self._lowercase else texts)

    def encode_plain(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes like `encode`, but never to special tokens."""
        texts = _valid_utf8(texts)
        return self._ids_between(_lower(texts) if self._lowercase else texts)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)], autograph=False)
    def decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Decodes like `Tokenizer.decode`, but ignores ids outside the vocabulary.

        ragged int32[B, None] → string[B], valid UTF-8.
        """
        return self._decode(ids)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)] * 2, autograph=False)
    def continuation(self, prompt: tf.RaggedTensor, new: tf.RaggedTensor) -> tf.Tensor:
        """Returns the text that new ids add, like `Tokenizer.continuation`.

        ragged int32[B, None], twice → string[B], valid UTF-8.
        """
        text = self._decode(tf.concat([prompt, new], axis=1))
        start = tf.strings.length(self._decode(prompt))
        return tf.strings.substr(text, start, tf.strings.length(text) - start)

    def _decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        known = (ids.flat_values >= 0) & (ids.flat_values < tf.size(self._pieces))
        pieces = tf.gather(self._pieces, tf.where(known, ids.flat_values, self._id_without_text))
        pieces = ids.with_flat_values(pieces)
        # An empty piece would add a separator.
        pieces = tf.ragged.boolean_mask(pieces, pieces != b"")
        joined = tf.strings.reduce_join(pieces, axis=1, separator=self._separator)
        return self._restore(_valid_utf8(_without_incomplete_character(joined)))

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes string[B] of valid UTF-8 to ragged int32[B, None]."""
        # Not an abstract method: the metaclasses of tf.Module and abc.ABC conflict.
        raise NotImplementedError

    def _ids_between(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes as `_ids`, without added tokens."""
        return self._ids(texts)

    def _restore(self, texts: tf.Tensor) -> tf.Tensor:
        """Undoes the escaping of `encode` in string[B] of valid UTF-8."""
        return texts


def _lower(texts: tf.Tensor) -> tf.Tensor:
    """Lower-cases string[B] by the rules of ICU's root locale."""
    # tf.strings.lower drops a NUL and everything after it, and a separator cannot be a NUL.
    parts = tf.strings.split(texts, "\0")
    ended = tf.strings.join([tf.strings.lower(parts.flat_values, encoding="utf-8"), b"\0"])
    joined = tf.strings.reduce_join(parts.with_flat_values(ended), axis=1)
    return tf.strings.substr(joined, tf.zeros_like(joined, tf.int32), tf.strings.length(joined) - 1)


def _valid_utf8(texts: tf.Tensor) -> tf.Tensor:
    # Replaces the same bytes as Python's decoder: the maximal subparts of the WHATWG standard.
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


# Bytes at the end that begin a character but do not complete it, written in Latin-1. The first two bytes
# of a character say how many follow: The Unicode Standard, table 3-7. There, 0xED is followed by up to
# 0x9F (surrogates), but Python's decoder waits for the third byte.
_INCOMPLETE = (
    r"(?:[\xc2-\xf4]|\xe0[\xa0-\xbf]|[\xe1-\xef][\x80-\xbf]"
    r"|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]?)\z"
)


def _without_incomplete_character(texts: tf.Tensor) -> tf.Tensor:
    """Drops the bytes of an incomplete character at the end of string[B], of any bytes."""
    start = tf.maximum(tf.strings.length(texts) - 3, 0)
    last = tf.strings.substr(texts, start, tf.fill(tf.shape(start), 3))
    last = tf.strings.unicode_transcode(last, "ISO-8859-1", "UTF-8")
    complete = tf.strings.regex_replace(last, _INCOMPLETE, "")
    length = start + tf.strings.length(complete, unit="UTF8_CHAR")
    return tf.strings.substr(texts, tf.zeros_like(length), length)
