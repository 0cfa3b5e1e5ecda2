"""Baselines: scores of predictions without a neural network, and of compression programs, on held-out text.

Measured on one core (AVX-512) of a machine with other work:

    bigram_loss            0.1 to 0.2 s for 2 million training tokens, 1.5 s for 16 million
    held_out_bytes         0.5 s for a million held-out tokens
    held_out_likeness      0.5 s for any length
    compression_baselines  2.5 s for a million held-out bytes
"""

import lzma
import math
from collections.abc import Iterator

import numpy as np
import zstandard

from minigpt.config import Config, PairsConfig
from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.token_ids import Part
from minigpt.corpus.token_store import Corpus
from minigpt.evaluation.scores import baselines, pair_baselines
from minigpt.tokenizers import Tokenizer

# Pairs of tokens that are sorted at once, 8 bytes each.
_MAX_SORTED = 1 << 24
_CHUNK = 1 << 22
# Parts of the training text that are compared with the held-out text, and the most tokens of a part. With
# fewer tokens, the parts of one text differ as much as two texts.
_PARTS, _PART_TOKENS, _LEAST_PART_TOKENS = 16, 1 << 15, 300

XZ_PRESET = 6  # The default of `xz`.
ZSTD_LEVEL = 19
COMPRESSION = ("xz_bits_per_byte", "zstd_bits_per_byte")


def evaluation_baselines(corpus: Corpus, config: Config) -> dict[str, float | None]:
    """Returns the scores that need no model, as analysis.json records them.

    Args:
      corpus: the token ids.
      config: the settings of the run.
    Returns:
      uniform, unigram, bigram: nats per token; for pairs, per target token. None if there are no
        held-out tokens.
      xz_bits_per_byte, zstd_bits_per_byte: None, until `compression_baselines` has measured them, which
        takes the most time.
    """
    vocab_size = corpus.tokenizer.vocab_size
    if isinstance(config.data, PairsConfig):
        train, val = (_fitting_pairs(part, corpus, config) for part in (corpus.train, corpus.val))
        losses = (
            pair_baselines(train, val, vocab_size) if val.fits.any() else (math.log(vocab_size),)
        )
        train_ids, val_ids = _target_ids(train), _target_ids(val)
        counts = np.bincount(train_ids[1:], minlength=vocab_size)
    else:
        losses = baselines(corpus.val, corpus.token_counts)
        train_ids, val_ids, counts = corpus.train.ids, corpus.val.ids, corpus.token_counts
    found = dict(zip(("uniform", "unigram"), losses, strict=False))
    found["bigram"] = bigram_loss(train_ids, val_ids, counts)
    return {
        **{name: _finite(found.get(name)) for name in ("uniform", "unigram", "bigram")},
        **dict.fromkeys(COMPRESSION),
    }


def bigram_loss(train_ids: np.ndarray, val_ids: np.ndarray, token_counts: np.ndarray) -> float:
    """Returns the loss of predicting each token from the token before it, by counts of the training text.

    Witten-Bell smoothing (Witten and Bell 1991; interpolated, as in Chen and Goodman 1998):

        p(b | a) = (c(ab) + t(a) · p(b)) / (c(a) + t(a))

    t(a) is the number of different tokens that follow `a` in the training text, and p(b) the unigram
    probability with one added to every count. So the smoothing is set by the training text alone.

    Args:
      train_ids: int[n + 1], the training text; the first token is only a context. May be memory-mapped:
        it is read in chunks. About 300 MB of memory are used for any length.
      val_ids: int[m + 1], the held-out text in the same form.
      token_counts: int64[V], how often each token occurs in train_ids[1:].
    Returns:
      nats per token; NaN if the held-out text has no tokens.
    """
    vocab_size = len(token_counts)
    val = np.asarray(val_ids).astype(np.int64)
    pairs, occurrences = np.unique(val[:-1] * vocab_size + val[1:], return_counts=True)
    if not len(pairs):
        return math.nan
    context_counts = token_counts.astype(np.int64)
    context_counts[train_ids[0]] += 1
    context_counts[train_ids[-1]] -= 1
    pair_counts, followers = _count(train_ids, pairs, context_counts)

    context, token = np.divmod(pairs, vocab_size)
    unigram = (token_counts[token] + 1) / (token_counts.sum() + vocab_size)
    seen = context_counts[context] > 0
    total = np.where(seen, context_counts[context] + followers[context], 1)
    weight = np.where(seen, followers[context], 1)  # An unseen context leaves the unigram.
    probability = (pair_counts + weight * unigram) / total
    return float(-(occurrences @ np.log(probability)) / occurrences.sum())


def held_out_likeness(
    train_ids: np.ndarray, val_ids: np.ndarray, vocab_size: int
) -> dict[str, list[float]] | None:
    """Compares how well the training text predicts the held-out text and how well it predicts itself.

    Equal parts of the training text, at equal distances, are the sample. Every second one is predicted by
    the token frequencies (unigram) and by the pairs of tokens (bigram, `bigram_loss`) of the others. Parts
    of the held-out text of the same length are predicted by as many parts.

    Args:
      train_ids, val_ids: int[n + 1] and int[m + 1], as in `bigram_loss`.
      vocab_size: V.
    Returns:
      unigram, bigram: the mean loss of the held-out text, and the lowest, the mean and the highest loss of
        the parts of the training text, in nats per token. None if a text is too short to tell.
    """
    length = min(len(train_ids) // _PARTS, len(val_ids), _PART_TOKENS)
    if length < _LEAST_PART_TOKENS:
        return None
    parts = _spread(train_ids, length, _PARTS)
    inside = np.array(
        [
            _count_losses(parts[:number] + parts[number + 1 :], parts[number], vocab_size)
            for number in range(0, _PARTS, 2)
        ]
    )
    outside = np.array(
        [_count_losses(parts[1:], part, vocab_size) for part in _spread(val_ids, length, 4)]
    )
    found = [outside.mean(axis=0), inside.min(axis=0), inside.mean(axis=0), inside.max(axis=0)]
    unigram, bigram = np.transpose(found).round(4).tolist()
    return {"unigram": unigram, "bigram": bigram}


def _spread(ids: np.ndarray, length: int, count: int) -> list[np.ndarray]:
    """Returns parts of a text at equal distances; they overlap if the text is short."""
    return [
        np.asarray(ids[start : start + length])
        for start in np.linspace(0, len(ids) - length, count).astype(int)
    ]


def _count_losses(
    train: list[np.ndarray], part: np.ndarray, vocab_size: int
) -> tuple[float, float]:
    """Returns the unigram and the bigram loss of a part of a text by the counts of others."""
    ids = np.concatenate(train)
    counts = np.bincount(ids[1:], minlength=vocab_size)
    unigram = -np.log((counts + 1) / (counts.sum() + vocab_size))[part].mean()
    return float(unigram), bigram_loss(ids, part, counts)


def _count(
    ids: np.ndarray, wanted: np.ndarray, context_counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Counts the pairs of adjacent tokens, for one range of contexts after the other.

    Args:
      ids: int[n + 1].
      wanted: int64[P], pairs to count, as context · V + token, in ascending order.
      context_counts: int64[V], how often each token occurs in ids[:-1].
    Returns:
      how often each wanted pair occurs, int64[P]; and how many different tokens follow each token,
        int64[V].
    """
    vocab_size = len(context_counts)
    counts = np.zeros(len(wanted), np.int64)
    followers = np.zeros(vocab_size, np.int64)
    for begin, end in _ranges(context_counts):
        pairs = np.empty(context_counts[begin:end].sum(), np.int64)
        filled = 0
        for context, token in _chunks(ids):
            keys = context * vocab_size + token
            if (begin, end) != (0, vocab_size):
                keys = keys[(context >= begin) & (context < end)]
            pairs[filled : filled + len(keys)] = keys
            filled += len(keys)
        pairs.sort()
        part = slice(*np.searchsorted(wanted, [begin * vocab_size, end * vocab_size]))
        right = np.searchsorted(pairs, wanted[part], side="right")
        counts[part] = right - np.searchsorted(pairs, wanted[part])
        different = pairs[np.flatnonzero(np.diff(pairs, prepend=-1))]
        followers += np.bincount(different // vocab_size, minlength=vocab_size)
    return counts, followers


def _ranges(context_counts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Divides the contexts into ranges of at most `_MAX_SORTED` pairs, or of one context."""
    before = np.concatenate([[0], np.cumsum(context_counts)])
    begin = 0
    while begin < len(context_counts):
        limit = before[begin] + _MAX_SORTED
        end = max(begin + 1, int(np.searchsorted(before, limit, side="right")) - 1)
        yield begin, end
        begin = end


def _chunks(ids: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields all pairs of adjacent tokens as two arrays, int64[c] each."""
    for start in range(0, len(ids) - 1, _CHUNK):
        chunk = np.asarray(ids[start : start + _CHUNK + 1]).astype(np.int64)
        yield chunk[:-1], chunk[1:]


def compression_baselines(held_out: bytes | None) -> dict[str, float | None]:
    """Returns the compressed size of the held-out text alone by two programs, as analysis.json records it.

    A model has seen the training text before; the programs start with nothing. All bytes that the
    programs `xz` (preset 6, its default) and `zstd -19` write for a file count, headers and checksums
    included.

    Args:
      held_out: the text; None if the tokenizer lost part of it.
    Returns:
      bits per byte: "xz_bits_per_byte" and "zstd_bits_per_byte"; None without a text.
    """
    if not held_out:
        return dict.fromkeys(COMPRESSION)
    xz = lzma.compress(held_out, preset=XZ_PRESET)
    # The program writes a checksum by default, the library does not.
    zstd = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).compress(held_out)
    sizes = (len(xz), len(zstd))
    return {name: 8 * n / len(held_out) for name, n in zip(COMPRESSION, sizes, strict=True)}


def held_out_bytes(corpus: Corpus, config: Config) -> bytes | None:
    """Returns the held-out text in UTF-8: all documents, with nothing between them.

    For pairs, it is the targets of those that fit the model.

    Returns:
      None if the tokenizer loses part of the text, or if there is no held-out text.
    """
    ids, tokenizer = corpus.val.ids, corpus.tokenizer
    if isinstance(config.data, PairsConfig):
        ids = _target_ids(_fitting_pairs(corpus.val, corpus, config))
    unknown = tokenizer.unknown_id is not None and bool((ids == tokenizer.unknown_id).any())
    if unknown or not tokenizer.lossless:
        return None
    return b"".join(text.encode() for text in _decoded(ids, tokenizer)) or None


def _decoded(ids: np.ndarray, tokenizer: Tokenizer) -> Iterator[str]:
    """Yields the text of each document. The last one may have no end token."""
    start = 0
    for end in [*np.flatnonzero(ids == tokenizer.end_id), len(ids)]:
        if end > start:
            yield tokenizer.decode(ids[start:end])
        start = end + 1


def _fitting_pairs(part: Part, corpus: Corpus, config: Config) -> Pairs:
    return Pairs(part.ids, corpus.tokenizer.end_id, config.model.max_len)


def _target_ids(pairs: Pairs) -> np.ndarray:
    """Returns the targets of the pairs that fit, int32[n + 1]: an end token, and one after each target.

    The end tokens stand for the start tokens of the targets after them, so the pairs of adjacent tokens are
    those that a model predicts.
    """
    targets = [pairs.target(index) for index in np.flatnonzero(pairs.fits)]
    return np.concatenate([np.array([pairs.end_id], np.int32), *targets])


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
