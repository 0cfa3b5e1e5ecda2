"""Which text is learned from and which is held out."""

from dataclasses import replace

import numpy as np

from minigpt.corpus.documents import Documents, character_start
from minigpt.errors import UserError

FEW_DOCUMENTS = 10
# One constant, not training.seed: runs with different seeds are to be compared on the same text.
_SEED = 20_170_612


def split(documents: Documents, val_fraction: float) -> tuple[Documents, Documents]:
    """Holds out a share of the documents for validation, before anything is learned.

    Of 10 documents or more, round(val_fraction · N) whole ones are drawn, at least one. Of fewer,
    the tail of the text is held out; the document the cut goes through is in both parts, cut.

    Returns:
      training and validation documents, both in the order of the source.
    Raises:
      UserError: there is too little text for two parts.
    """
    if len(documents) < FEW_DOCUMENTS:
        return _split_tail(documents, val_fraction)
    # The raw stream of a bit generator is the same in every version of numpy.
    drawn = np.argsort(np.random.PCG64(_SEED).random_raw(len(documents)), kind="stable")
    held_out = round(val_fraction * len(documents))
    held_out = min(max(held_out, 1), len(documents) - 1)
    return (
        documents.select(np.sort(drawn[held_out:])),
        documents.select(np.sort(drawn[:held_out])),
    )


def split_pairs(
    documents: Documents, val_fraction: float, val_pairs: int | None
) -> tuple[Documents, Documents]:
    """Holds out pairs, so that no source sentence is on both sides.

    All pairs of a source go the same way. Sources are drawn one after the other; one with more pairs
    than are still wanted is passed over, so the number is exact if there are sources enough.

    Args:
      documents: sources and targets in turn.
      val_fraction: share of the pairs to hold out.
      val_pairs: their number, in place of a share.
    Returns:
      training and validation documents, both in the order of the source.
    Raises:
      UserError: nothing would be left for one of the sides, or the number cannot be met.
    """
    count = len(documents) // 2
    setting = f"data.val_fraction = {val_fraction}" if val_pairs is None else ""
    wanted = max(1, round(val_fraction * count)) if val_pairs is None else val_pairs
    setting = setting or f"data.val_pairs = {val_pairs}"
    group_of: dict[bytes, int] = {}
    spans = documents.spans[0::2].tolist()
    groups = np.array(
        [group_of.setdefault(documents.text[start:stop], len(group_of)) for start, stop in spans]
    )
    sizes = np.bincount(groups, minlength=1)
    if wanted >= count:
        raise UserError(f"{setting}: should be less than the {count:,} pairs there are")
    held_out, missing = np.zeros(len(sizes), bool), wanted
    for group in np.argsort(np.random.PCG64(_SEED).random_raw(len(sizes)), kind="stable"):
        if sizes[group] <= missing:
            held_out[group] = True
            missing -= sizes[group]
    if (val_pairs is not None and missing) or not held_out.any():
        raise UserError(
            f"{setting}: cannot be met, as all pairs of a source sentence stay together; "
            f"{wanted - missing:,} can"
        )
    pairs_held_out = np.repeat(held_out[groups], 2)
    return (
        documents.select(np.flatnonzero(~pairs_held_out)),
        documents.select(np.flatnonzero(pairs_held_out)),
    )


def _split_tail(documents: Documents, val_fraction: float) -> tuple[Documents, Documents]:
    sizes = documents.spans[:, 1] - documents.spans[:, 0]
    ends = np.cumsum(sizes)
    total = documents.bytes
    cut = min(int(total * (1 - val_fraction)), total - 1)
    number = int(np.searchsorted(ends, cut, side="right"))
    start = int(documents.spans[number, 0])
    place = character_start(documents.text, start + cut - int(ends[number] - sizes[number]))
    if number == 0 and place == start:
        raise UserError(
            f"data.val_fraction = {val_fraction}: {total} bytes of text are too few to hold any out"
        )
    train, val = documents.spans[: number + 1].copy(), documents.spans[number:].copy()
    if place == start:
        return replace(documents, spans=train[:-1]), replace(documents, spans=val)
    train[-1, 1] = val[0, 0] = place
    return replace(documents, spans=train, open_end=True), replace(documents, spans=val)
