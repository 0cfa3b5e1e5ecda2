"""Baselines: scores of predictions without a neural network, and of PPMd, on held-out text."""

import math

import numpy as np
import pyppmd

from minigpt.config import Config, DialoguesConfig, PairsConfig
from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.token_ids import decode_documents
from minigpt.corpus.token_store import Corpus
from minigpt.evaluation.scores import bits_per_byte
from minigpt.tokenizers.base import Tokenizer

# Pairs of tokens that are counted, the last ones of a longer text; sorting them takes 300 MB.
_MOST_COUNTED = 1 << 24
# Parts of the training text that are compared with the held-out text, and the most tokens of a part. With
# fewer tokens, the parts of one text differ as much as two texts.
_PARTS, _PART_TOKENS, _LEAST_PART_TOKENS = 16, 1 << 15, 300

# The order of the n-grams: longer ones do not predict better.
NGRAM_ORDER = 7
# N-grams and PPMd read at most this many tokens and bytes of each text, those next to the
# border.
MOST_READ = 1 << 21
# The best of these counts: low orders for prose, high ones for texts that repeat phrases.
PPMD_ORDERS, _PPMD_MEMORY = (6, 24), 1 << 28


def bigram_baseline(corpus: Corpus, config: Config) -> float | None:
    """Returns `bigram_loss` of a run; None for dialogues, and if there are no held-out tokens."""
    # Counts of n-grams do not know which tokens of dialogues are learned.
    if isinstance(config.data, DialoguesConfig):
        return None
    train_ids, val_ids = _ids(corpus, config)
    return _finite(bigram_loss(train_ids, val_ids, corpus.tokenizer.vocab_size))


def bigram_loss(train_ids: np.ndarray, val_ids: np.ndarray, vocab_size: int) -> float:
    """Returns the loss of predicting each token from the token before it, by counts of the training text.

    Witten-Bell smoothing (Witten and Bell 1991; interpolated, as in Chen and Goodman 1998):

        p(b | a) = (c(ab) + t(a) · p(b)) / (c(a) + t(a))

    t(a) is the number of different tokens that follow `a` in the training text, and p(b) the unigram
    probability with one added to every count. So the smoothing is set by the training text alone.

    Args:
      train_ids: int[n + 1], the training text; the first token is only a context. May be memory-mapped.
        The last 16 million tokens are counted.
      val_ids: int[m + 1], the held-out text in the same form.
      vocab_size: V.
    Returns:
      nats per token; NaN if the held-out text has no tokens.
    """
    ids, val = (np.asarray(each).astype(np.int64) for each in (train_ids[-_MOST_COUNTED:], val_ids))
    pairs, occurrences = np.unique(val[:-1] * vocab_size + val[1:], return_counts=True)
    if not len(pairs) or len(ids) < 2:
        return math.nan
    token_counts = np.bincount(ids[1:], minlength=vocab_size)
    context_counts = np.bincount(ids[:-1], minlength=vocab_size)
    known, known_counts = np.unique(ids[:-1] * vocab_size + ids[1:], return_counts=True)
    followers = np.bincount(known // vocab_size, minlength=vocab_size)
    at = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
    pair_counts = np.where(known[at] == pairs, known_counts[at], 0)

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
    the pairs of tokens (`bigram_loss`) of the others. Parts of the held-out text of the same length are
    predicted by as many parts.

    Args:
      train_ids, val_ids: int[n + 1] and int[m + 1], as in `bigram_loss`.
      vocab_size: V.
    Returns:
      bigram: the mean loss of the held-out text, and the lowest, the mean and the highest loss of the parts
        of the training text, in nats per token. None if a text is too short to tell.
    """
    length = min(len(train_ids) // _PARTS, len(val_ids), _PART_TOKENS)
    if length < _LEAST_PART_TOKENS:
        return None
    parts = spread_parts(train_ids, length, _PARTS)
    inside = [
        bigram_loss(np.concatenate(parts[:number] + parts[number + 1 :]), parts[number], vocab_size)
        for number in range(0, _PARTS, 2)
    ]
    others = np.concatenate(parts[1:])
    outside = [bigram_loss(others, part, vocab_size) for part in spread_parts(val_ids, length, 4)]
    found = [np.mean(outside), np.min(inside), np.mean(inside), np.max(inside)]
    return {"bigram": [round(float(loss), 4) for loss in found]}


def spread_parts(ids: np.ndarray, length: int, count: int) -> list[np.ndarray]:
    """Returns parts of a text at equal distances; they overlap if the text is short."""
    starts = np.linspace(0, len(ids) - length, count).astype(int)
    return [np.asarray(ids[start : start + length]) for start in starts]


def ngram_loss(
    train_ids: np.ndarray, val_ids: np.ndarray, vocab_size: int, order: int = NGRAM_ORDER
) -> float:
    """Returns the loss of predicting each token from the tokens before it, by counts of the training text.

    Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998):

        p(w | h) = (max(c(hw) - D, 0) + b(h) · p(w | h without its first token)) / c(h)

    The discount D depends on the count: D₁, D₂, or D₃ for 3 and more. b(h) is the sum of the discounts of
    all tokens that follow h. c counts occurrences for the longest n-grams, and different tokens before an
    n-gram for shorter ones. Without any token, every token has the probability 1 / V.

    Args:
      train_ids: int[n + 1], the training text.
      val_ids: int[m + 1], the held-out text; the first token is only a context.
      vocab_size: V.
      order: tokens of the longest n-grams.
    Returns:
      nats per token; NaN if the held-out text has no tokens.
    """
    ids = np.concatenate([train_ids, val_ids]).astype(np.int64)
    border = len(train_ids)
    predicted = np.arange(border + 1, len(ids))
    if not len(predicted):
        return math.nan
    probability = np.full(len(predicted), 1 / vocab_size)
    # The number of the n-gram that ends at each position, and that of its context, the n-gram without its
    # last token. The training text has none at its first n - 1 positions.
    ngrams, contexts = _longer(np.zeros(len(ids), np.int64), ids, vocab_size)
    for n in range(1, order + 1):
        size = ngrams.max() + 1
        counted = np.arange(n - 1, border)
        if n < order:
            longer, longer_contexts = _longer(ngrams, ids, vocab_size)
            counted = _one_of_each(longer, np.arange(n, border))
        counts = np.bincount(ngrams[counted], minlength=size)
        discounts = _discounts(counts)[np.minimum(counts, 3)]
        different = _one_of_each(ngrams, counted)
        context = contexts[different]
        number = contexts.max() + 1
        total = np.bincount(context, counts[ngrams[different]], number)[contexts[predicted]]
        rest = np.bincount(context, discounts[ngrams[different]], number)[contexts[predicted]]
        own = np.maximum(counts - discounts, 0)[ngrams[predicted]]
        known = total > 0
        interpolated = (own + rest * probability) / np.where(known, total, 1)
        probability = np.where(known, interpolated, probability)
        if n < order:
            ngrams, contexts = longer, longer_contexts
    return float(-np.log(probability).mean())


def _longer(ngrams: np.ndarray, ids: np.ndarray, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of the n-grams with one more token before them, and those of their contexts."""
    contexts = np.concatenate([[0], ngrams[:-1]])
    return np.unique(contexts * vocab_size + ids, return_inverse=True)[1], contexts


def _one_of_each(ngrams: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Returns one of the positions of each different n-gram."""
    at = np.full(ngrams.max() + 1, -1)
    at[ngrams[positions]] = positions
    return at[at >= 0]


def _discounts(counts: np.ndarray) -> np.ndarray:
    """Returns the discounts of counts of 0, 1, 2, and 3 or more, as Chen and Goodman estimate them."""
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=5)[1:5].tolist()
    if n1 and n2 and n3:
        share = n1 / (n1 + 2 * n2)
        found = [1 - 2 * share * n2 / n1, 2 - 3 * share * n3 / n2, 3 - 4 * share * n4 / n3]
        if min(found) > 0:
            return np.array([0, *found])
    return np.array([0, 0.5, 1, 1.5])  # Too few n-grams to estimate them; the values of KenLM.


def ngram_baselines(corpus: Corpus, config: Config) -> dict[str, float | None]:
    """Returns the scores of n-grams that are counted on the training text and then frozen, as a model is.

    At most `MOST_READ` tokens and bytes of each text are read.

    Returns:
      The attributes of `Baselines` that change: `ngram_loss` of the model's own tokens, None without
      held-out tokens; and, unless the tokenizer loses part of the held-out text, the same in bits per byte,
      and the scores of the bytes of the text, by n-grams and by PPMd.
    """
    train_ids, val_ids = _ids(corpus, config, MOST_READ)
    loss = ngram_loss(train_ids, val_ids, corpus.tokenizer.vocab_size)
    found = {"ngram": _finite(loss)}
    if texts := read_texts(corpus, config):
        context, held_out = texts
        found["ngram_bits_per_byte"] = bits_per_byte(
            loss, len(val_ids) - 1, len(_bytes(val_ids, corpus.tokenizer))
        )
        both = np.frombuffer(context + held_out, np.uint8)
        byte_loss = ngram_loss(both[: len(context)], both[len(context) - 1 :], 256)
        found["byte_ngram_bits_per_byte"] = byte_loss / math.log(2)
        found["ppmd_bits_per_byte"] = ppmd_bits_per_byte(context, held_out)
    return found


def ppmd_bits_per_byte(context: bytes, held_out: bytes) -> float:
    """Returns by how much a text that PPMd compresses becomes longer if the held-out text follows it.

    The program goes on to learn while it reads the held-out text, which a model does not.

    Returns:
      bits per byte of variant H; the best of `PPMD_ORDERS`.
    """

    def size(text: bytes, order: int) -> int:
        encoder = pyppmd.Ppmd7Encoder(order, _PPMD_MEMORY)
        return len(encoder.encode(text) + encoder.flush())

    added = [size(context + held_out, order) - size(context, order) for order in PPMD_ORDERS]
    return 8 * min(added) / len(held_out)


def read_texts(corpus: Corpus, config: Config) -> tuple[bytes, bytes] | None:
    """Returns the training text and the held-out text in UTF-8: documents with nothing between them.

    Of pairs, it is the targets of those that fit the model. At most `MOST_READ` bytes of each text are
    returned: the end of the training text and the beginning of the held-out text.

    Returns:
      None if a text is empty, or if the tokenizer loses part of the held-out text.
    """
    tokenizer = corpus.tokenizer
    train_ids, val_ids = _ids(corpus, config, MOST_READ)
    unknown = tokenizer.unknown_id is not None and bool((val_ids == tokenizer.unknown_id).any())
    if unknown or not tokenizer.lossless:
        return None
    context, held_out = (_bytes(ids, tokenizer) for ids in (train_ids, val_ids))
    return (context[-MOST_READ:], held_out[:MOST_READ]) if context and held_out else None


def _bytes(ids: np.ndarray, tokenizer: Tokenizer) -> bytes:
    """Returns the texts of the documents, one after the other."""
    return "".join(decode_documents(ids, tokenizer)).encode()


def _ids(
    corpus: Corpus, config: Config, most: int = _MOST_COUNTED
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the tokens of both texts, at most so many of each, those next to the border.

    Of pairs, they are the targets of those that fit. The end token between two of them stands for the start
    token of the second, so the pairs of adjacent tokens are those that a model predicts.
    """
    found = [corpus.train.ids, corpus.val.ids]
    if isinstance(config.data, PairsConfig):
        for side, ids in enumerate(found):
            pairs = Pairs(ids, corpus.tokenizer.end_id, config.model.max_len)
            targets = [pairs.target(index) for index in np.flatnonzero(pairs.fits)]
            found[side] = np.concatenate([np.array([pairs.end_id], np.int32), *targets])
    return found[0][-most:], found[1][: most + 1]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
