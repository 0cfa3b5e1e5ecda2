"""The size of a text."""

from collections.abc import Iterable

from minigpt.config.complete import CHARACTERS_BELOW, LONG_TEXT, TextSize
from minigpt.corpus.documents import Piece, ingest
from minigpt.corpus.split import split

# The bytes of UTF-8 that do not begin a character.
_CONTINUATION = bytes(range(0x80, 0xC0))


def measure(pieces: Iterable[Piece], val_fraction: float | None) -> TextSize:
    """Returns the size of a text.

    A short one is split, since its batch depends on what is left; pairs, with `val_fraction` None, are not.
    """
    size = characters = 0
    different, kept = set[str](), list[Piece]()
    for piece in pieces:
        size += len(piece.text)
        # Also of a piece that begins or ends within one.
        characters += len(piece.text.translate(None, _CONTINUATION))
        if size < LONG_TEXT:
            different.update(piece.text.decode(errors="ignore"))
        if size < CHARACTERS_BELOW:
            kept.append(piece)
    share = None
    if size < CHARACTERS_BELOW and val_fraction is not None:
        documents = ingest(kept)
        # `open_corpus` reports a text without documents.
        if len(documents):
            # The share that is chosen for a short text is the default.
            train, _ = split(documents, val_fraction)
            share = sum(len(text) for text, _ in train.pieces()) / characters
    return TextSize(size, characters, len(different), share)
