"""Splits a corpus into training and validation documents. Copies of a document are on one side."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from minigpt.config import DataConfig, PairsConfig
from minigpt.corpus.documents import Documents, character_start
from minigpt.errors import UserError
from minigpt.notices import LOGGER

FEW_DOCUMENTS = 10
# A constant and not training.seed, so that runs with different seeds have the same held-out text.
_SEED = 20_170_612


def split_corpus(
    documents: Documents, data: DataConfig, path_bytes: Sequence[int] = ()
) -> tuple[Documents, Documents]:
    """Returns training and validation documents, both in the order of the source.

    Validation documents are those of `data.val_paths`, or some of the text; of every path if the paths have
    weights. Their copies are not trained on.

    Args:
      documents: those of `data.val_paths` and then those of the text.
      data: the settings.
      path_bytes: the sizes of the texts of `data.val_paths` and `data.paths`, if they have to be known.
    Raises:
      UserError: the text is too short for two parts, or `data.val_pairs` cannot be met.
    """
    if isinstance(data, PairsConfig):
        return split_pairs(documents, data.val_fraction, data.val_pairs)
    if not path_bytes:
        return split(documents, data.val_fraction)
    val_paths = getattr(data, "val_paths", [])
    numbers = path_numbers(documents, path_bytes)
    names = [*val_paths, *getattr(data, "paths", [])]
    blank = [name for number, name in enumerate(names) if number not in numbers]
    if blank:
        raise UserError(*(f"{name}: only white space; should contain text" for name in blank))
    sides = [_select(documents, numbers < len(val_paths))]
    if not val_paths:
        texts = (documents.select(np.flatnonzero(numbers == n)) for n in range(len(names)))
        sides = [split(text, data.val_fraction) for text in texts]
    train, val = (
        replace(
            documents,
            spans=np.concatenate([part.spans for part in parts]),
            digests=np.concatenate([part.digests for part in parts]),
        )
        for parts in zip(*sides, strict=True)
    )
    copies = np.isin(train.digests, val.digests)
    if copies.all():
        raise UserError("all documents of the training text are also in the validation text")
    if number := copies.sum():
        LOGGER.info(f"{number:,} documents are also in the validation text; they are left out")
    return train.select(np.flatnonzero(~copies)), val


def path_numbers(documents: Documents, path_bytes: Sequence[int]) -> np.ndarray:
    """Returns the number of the path that each document is from, int64[N], by the sizes of their texts."""
    return np.searchsorted(np.cumsum(path_bytes), documents.spans[:, 0], side="right")


def split(documents: Documents, val_fraction: float) -> tuple[Documents, Documents]:
    """Holds out a share of the documents for validation.

    With 10 documents or more, round(val_fraction · N) whole documents are drawn, at least one. All
    copies of a document go to the same side; a document with more copies than are still needed is skipped.
    With fewer documents, the end of the text is held out, and the document at the cut is divided.

    Returns:
      training and validation documents, both in the order of the source.
    Raises:
      UserError: the text is too short for two parts, or all its documents are equal.
    """
    if len(documents) < FEW_DOCUMENTS:
        return _split_tail(documents, val_fraction)
    requested = min(max(round(val_fraction * len(documents)), 1), len(documents) - 1)
    # The raw stream of a bit generator is the same in every version of NumPy.
    drawn = np.argsort(np.random.PCG64(_SEED).random_raw(len(documents)), kind="stable")
    groups = _group_equal(documents, step=1)
    if not groups.any():
        raise UserError(f"all {len(documents):,} documents are equal; should be at least two")
    sizes = np.bincount(groups)
    _, first_draws = np.unique(groups[drawn], return_index=True)
    order = groups[drawn[np.sort(first_draws)]]
    chosen = _choose_groups(order, sizes, requested)
    if not chosen.any():
        # Every document has more copies than requested.
        chosen[order[np.argmin(sizes[order])]] = True
    return _select(documents, chosen[groups])


def split_pairs(
    documents: Documents, val_fraction: float, val_pairs: int | None
) -> tuple[Documents, Documents]:
    """Holds out pairs so that no source sentence is on both sides.

    All pairs of a source sentence go to the same side. Sources are drawn one by one; a source with more
    pairs than are still needed is skipped. The requested number is met exactly if enough sources have
    few pairs.

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
    groups = _group_equal(documents, step=2)
    sizes = np.bincount(groups)
    order = np.argsort(np.random.PCG64(_SEED).random_raw(len(sizes)), kind="stable")
    chosen = _choose_groups(order, sizes, requested)
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


def _choose_groups(order: np.ndarray, sizes: np.ndarray, requested: int) -> np.ndarray:
    """Returns which groups to hold out, bool[G]: in order, those that fit into the requested number."""
    chosen, missing = np.zeros(len(sizes), bool), requested
    for group in order:
        if not missing:
            break
        if sizes[group] <= missing:
            chosen[group] = True
            missing -= sizes[group]
    return chosen


def _group_equal(documents: Documents, step: int) -> np.ndarray:
    """Numbers the different texts of every `step`-th document by first occurrence, int64[N / step]."""
    _, first, groups = np.unique(documents.digests[::step], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[groups]


def _select(documents: Documents, held_out: np.ndarray) -> tuple[Documents, Documents]:
    return (
        documents.select(np.flatnonzero(~held_out)),
        documents.select(np.flatnonzero(held_out)),
    )


def _split_tail(documents: Documents, val_fraction: float) -> tuple[Documents, Documents]:
    sizes = documents.spans[:, 1] - documents.spans[:, 0]
    ends = np.cumsum(sizes)
    total = documents.bytes
    cut = min(int(total * (1 - val_fraction)), total - 1)
    index = int(np.searchsorted(ends, cut, side="right"))
    start = int(documents.spans[index, 0])
    position = character_start(documents.text, start + cut - int(ends[index] - sizes[index]))
    if index == 0 and position == start:
        raise UserError(f"data.val_fraction = {val_fraction}: {total} bytes of text are too short")
    train = documents.select(np.arange(index + 1))
    val = documents.select(np.arange(index, len(documents)))
    if position == start:
        return train.select(np.arange(index)), val
    train.spans[-1, 1] = val.spans[0, 0] = position
    for part, place in ((train, -1), (val, 0)):
        first, end = part.spans[place]
        part.digests[place] = hashlib.blake2b(part.text[first:end], digest_size=16).digest()
    return replace(train, open_end=True), val
