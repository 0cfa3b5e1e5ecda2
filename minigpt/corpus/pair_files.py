"""Tab-separated files of sentence pairs: finds them, checks them and reads them line by line."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from minigpt.corpus.documents import Documents, Piece, ingest
from minigpt.corpus.text_files import TextFiles, checked_blocks
from minigpt.errors import UserError

MAX_LINES_SHOWN = 5

logger = logging.getLogger(__name__)


class PairFiles(TextFiles):
    """Files, folders (every `*.tsv` and `*.txt` below) and globs with SOURCE tab TARGET on each line.

    Every sentence is a document, each source before its target, stripped of white space at both ends.
    Additional columns, such as Tatoeba's attribution, are ignored; a message about them is logged.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".tsv", ".txt")
    structured: ClassVar[tuple[str, ...]] = ()  # A line without a tab is refused.

    def _documents(self, path: Path) -> Iterator[Piece]:
        faults: dict[str, list[int]] = {}
        lines_with_more_columns = 0
        for number, line in enumerate(_lines(checked_blocks(path)), start=1):
            columns = line.split(b"\t")
            source, target = (column.strip() for column in [*columns, b""][:2])
            if len(columns) < 2:
                faults.setdefault("no tab", []).append(number)
            elif not source:
                faults.setdefault("an empty source sentence", []).append(number)
            elif not target:
                faults.setdefault("an empty target sentence", []).append(number)
            else:
                lines_with_more_columns += len(columns) > 2
                yield Piece(source, True)
                yield Piece(target, True)
        if faults:
            raise UserError(*(_fault(path, fault, lines) for fault, lines in faults.items()))
        if lines_with_more_columns:
            logger.info(
                "%s: %s more than two columns; only the first two are read",
                path,
                _lines_have(lines_with_more_columns),
            )


def read_pairs(paths: Sequence[str | Path]) -> Documents:
    """Returns the sentences of the user's pair files, sources and targets in turn.

    Raises:
      UserError: with all problems of the files, one line each.
    """
    files = PairFiles(paths)
    files.log_notes()
    return ingest(files.pieces())


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _fault(path: Path, fault: str, lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:MAX_LINES_SHOWN]))
    more = f" and {len(lines) - MAX_LINES_SHOWN:,} more" if len(lines) > MAX_LINES_SHOWN else ""
    return (
        f"{path}: {_lines_have(len(lines))} {fault} (line{'s' * (len(lines) > 1)} {shown}{more});"
        " each should be SOURCE, a tab, TARGET"
    )


def _lines_have(count: int) -> str:
    return "1 line has" if count == 1 else f"{count:,} lines have"
