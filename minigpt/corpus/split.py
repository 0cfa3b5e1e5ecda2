"""Splits a corpus into training and validation documents. Copies of a document are on one side."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from minigpt.config import DataConfig, DialoguesConfig, PairsConfig
from minigpt.corpus.documents import Documents, character_start
from minigpt.errors import UserError
from minigpt.notices import LOGGER

FEW_DOCUMENTS = 10
_DIVIDED_BYTES = 1000
# After which a document is divided: a paragraph, a line, a word.
_BREAKS = tuple(map(re.compile, (rb"\n\s*\n", rb"\n", rb"(?<=\S)(?=\s)")))
# A constant and not training.seed, so that runs with different seeds have the same held-out text.
_SEED = 20_170_612


def split_corpus(
    documents: Documents, data: DataConfig, path_bytes: Sequence[int] = (), by_bytes: bool = True
) -> tuple[Documents, Documents]:
    """Returns training and validation documents.

    Validation documents are those of `data.val_paths`, or some of the text; of every path if the paths have
    weights. Their copies are not trained on.

    Args:
      documents: those of `data.val_paths` and then those of the text.
      path_bytes: the sizes of the texts of `data.val_paths` and `data.paths`, if they have to be known.
      data, by_bytes: the settings; see `split`.
    Raises:
      UserError: the text is too short for two parts, or `data.val_pairs` cannot be met.
    """
    if isinstance(data, PairsConfig):
        return split_pairs(documents, data.val_fraction, data.val_pairs)
    options = {"by_bytes": by_bytes, "divides": not isinstance(data, DialoguesConfig)}
    if not path_bytes:
        return split(documents, data.val_fraction, **options)
    val_paths = getattr(data, "val_paths", [])
    numbers = path_numbers(documents, path_bytes)
    names = [*val_paths, *getattr(data, "paths", [])]
    blank = [name for number, name in enumerate(names) if number not in numbers]
    if blank:
        raise UserError(*(f"{name}: only white space; should contain text" for name in blank))
    if val_paths:
        train, val = _select(documents, numbers < len(val_paths))
    else:
        texts = (documents.select(numbers == n) for n in range(len(names)))
        sides = [split(text, data.val_fraction, **options) for text in texts]
        train, val = (_joined(parts) for parts in zip(*sides, strict=True))
    copies = np.isin(train.digests, val.digests)
    if copies.all():
        raise UserError("all documents of the training text are also in the validation text")
    if number := copies.sum():
        LOGGER.info(f"{number:,} documents are also in the validation text; they are left out")
    return train.select(~copies), val


def _joined(parts: Sequence[Documents]) -> Documents:
    spans, digests = ([getattr(part, name) for part in parts] for name in ("spans", "digests"))
    return Documents(parts[0].text, np.concatenate(spans), np.concatenate(digests))


def path_numbers(documents: Documents, path_bytes: Sequence[int]) -> np.ndarray:
    """Returns the number of the path that each document is from, int64[N], by the sizes of their texts."""
    return np.searchsorted(np.cumsum(path_bytes), documents.spans[:, 0], side="right")


def split(
    documents: Documents, val_fraction: float, *, by_bytes: bool = True, divides: bool = True
) -> tuple[Documents, Documents]:
    """Holds out a share of the text for validation.

    Documents are drawn. Those that fit into what is still to be held out are held out, and the first other
    one is divided at its end: at a paragraph or else at a line, or, if more than half is still to be held
    out, at a space or a character. All copies of a document are on the same side.

    Args:
      val_fraction: share of the bytes to hold out. At least one document or the end of one is held out.
      by_bytes: if false, as in runs of earlier versions: a share of the documents, none of them divided;
        or the end of a text of few documents.
      divides: whether a document may be divided. Those below 1,000 bytes are only if there is no other.
    Returns:
      training and validation documents, both in the order of the source, except that a divided document
      is the last one of training.
    Raises:
      UserError: the text is too short for two parts, or all its documents are equal.
    """
    count = len(documents)
    if not by_bytes and count < FEW_DOCUMENTS:
        return _split_tail(documents, val_fraction)
    groups, firsts = _group_equal(documents, step=1)
    if len(firsts) == 1 < count:
        raise UserError(f"all {count:,} documents are equal; should be at least two")
    sizes = copies = np.bincount(groups)
    can_divide = np.zeros(len(sizes), bool)
    if by_bytes:
        sizes = np.bincount(groups, np.diff(documents.spans)[:, 0]).astype(np.int64)
        can_divide |= divides & (copies == 1) & ((sizes >= _DIVIDED_BYTES) | (count == 1))
    total = int(sizes.sum())
    requested = min(max(round(val_fraction * total), 1), total - 1)
    # The raw stream of a bit generator is the same in every version of NumPy.
    drawn = groups[np.argsort(np.random.PCG64(_SEED).random_raw(count), kind="stable")]
    order = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    chosen, missing, other = _choose(order, sizes, requested, can_divide)
    if other is not None and missing > requested // 1000:
        first, anywhere = int(firsts[other]), 2 * missing > requested
        if cut := _place_to_divide(documents, first, missing, anywhere):
            return _divided(documents, chosen[groups], first, cut)
    if not chosen.any():
        if count == 1:
            short = f"{total} bytes of text are too short"
            problem = short if divides else "the text is one dialogue; should be at least two"
            raise UserError(f"data.val_fraction = {val_fraction}: {problem}")
        # Every document is larger than what is to be held out, or has more copies.
        chosen[order[np.argmin(sizes[order])]] = True
    return _select(documents, chosen[groups])


def _choose(
    order: np.ndarray, sizes: np.ndarray, requested: int, can_divide: np.ndarray
) -> tuple[np.ndarray, int, int | None]:
    """Chooses groups in order: those that fit into what is still requested.

    Returns:
      which are chosen, bool[G]; what is missing; and the first group that does not fit and can be divided,
      which ends the choice.
    """
    chosen, missing = np.zeros(len(sizes), bool), requested
    for group in order.tolist():
        if sizes[group] <= missing:
            chosen[group] = True
            missing -= int(sizes[group])
        elif can_divide[group]:
            return chosen, missing, group
    return chosen, missing, None


def _place_to_divide(documents: Documents, index: int, size: int, anywhere: bool) -> int | None:
    """Returns where to divide a document so that at most `size` bytes are held out, and at least half.

    None if there is no such place. With `anywhere`, it may be within a line.
    """
    start, end = documents.spans[index].tolist()
    begin = character_start(documents.text, end - size)
    for pattern in _BREAKS if anywhere else _BREAKS[:2]:
        # A break may also end at the first possible place.
        for found in pattern.finditer(documents.text, max(start, begin - 2), end - size // 2):
            if found.end() >= max(begin, start + 1):
                return found.end() if found.end() < end else None
    return begin if anywhere and begin > start else None


def _divided(
    documents: Documents, held_out: np.ndarray, index: int, cut: int
) -> tuple[Documents, Documents]:
    """Returns both sides, of which the second also has the end of a document, from `cut` on."""
    left = np.flatnonzero(~held_out)
    train = documents.select(np.append(left[left != index], index))
    held_out[index] = True
    val = documents.select(held_out)
    place = int(np.count_nonzero(held_out[:index]))
    train.spans[-1, 1] = val.spans[place, 0] = cut
    for part, at in ((train, -1), (val, place)):
        start, end = part.spans[at]
        part.digests[at] = hashlib.blake2b(part.text[start:end], digest_size=16).digest()
    return replace(train, open_end=True), val


def split_pairs(
    documents: Documents, val_fraction: float, val_pairs: int | None
) -> tuple[Documents, Documents]:
    """Holds out pairs, all pairs of a source sentence or none.

    Sources are drawn; one with more pairs than are still needed is skipped.

    Args:
      documents: sources and targets in turn.
      val_fraction: share of the pairs to hold out if `val_pairs` is None.
      val_pairs: number of pairs to hold out; limited to half of all pairs.
    Returns:
      training and validation documents, both in the order of the source.
    Raises:
      UserError: one side would be empty, or the number cannot be met.
    """
    count = len(documents) // 2
    requested = max(1, round(val_fraction * count))
    if val_pairs is not None:
        requested = min(val_pairs, max(1, count // 2))
    groups, _ = _group_equal(documents, step=2)
    sizes = np.bincount(groups)
    order = np.argsort(np.random.PCG64(_SEED).random_raw(len(sizes)), kind="stable")
    chosen, *_ = _choose(order, sizes, requested, np.zeros(len(sizes), bool))
    found = int(sizes[chosen].sum())
    if not 0 < found < count or (requested == val_pairs and found < val_pairs):
        setting = f"data.val_fraction = {val_fraction}"
        setting = setting if val_pairs is None else f"data.val_pairs = {val_pairs}"
        raise UserError(
            f"{setting}: cannot be met: of {count:,} pairs, {found:,} can be held out, since all pairs "
            "of a source sentence stay together"
        )
    return _select(documents, np.repeat(chosen[groups], 2))


def count_duplicates(documents: Documents, pairs: bool) -> int:
    """Returns how many documents, or pairs of them, are equal to an earlier one."""
    digests = documents.digests
    # The digests of a source and its target, next to each other, are the digest of the pair.
    found = digests.view("S32") if pairs else digests
    return len(found) - len(np.unique(found))


def without_copies(documents: Documents, data: DataConfig) -> Documents:
    """Returns all documents; without copies of earlier ones if `data.duplicates` is "drop"."""
    if getattr(data, "duplicates", "keep") == "keep":
        return documents
    _, firsts = _group_equal(documents, step=1)
    return documents.select(firsts)


def _group_equal(documents: Documents, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the group of equal texts of every `step`-th document, int64[N / step], and their firsts.

    Groups are numbered by first occurrence.
    """
    _, first, groups = np.unique(documents.digests[::step], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[groups], np.sort(first)


def _select(documents: Documents, held_out: np.ndarray) -> tuple[Documents, Documents]:
    return documents.select(~held_out), documents.select(held_out)


def _split_tail(documents: Documents, val_fraction: float) -> tuple[Documents, Documents]:
    sizes = np.diff(documents.spans)[:, 0]
    ends = np.cumsum(sizes)
    total = documents.bytes
    cut = min(int(total * (1 - val_fraction)), total - 1)
    index = int(np.searchsorted(ends, cut, side="right"))
    start = int(documents.spans[index, 0])
    position = character_start(documents.text, start + cut - int(ends[index] - sizes[index]))
    if index == 0 and position == start:
        raise UserError(f"data.val_fraction = {val_fraction}: {total} bytes of text are too short")
    held_out = np.arange(len(documents)) >= index
    if position == start:
        return _select(documents, held_out)
    return _divided(documents, held_out, index, position)
