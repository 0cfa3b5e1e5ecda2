"""Pairs of sentences in tab-separated files: found, checked, read line by line."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from minigpt.corpus.documents import Piece
from minigpt.corpus.text_files import TextFiles, checked_blocks
from minigpt.errors import UserError

LINES_NAMED = 5


class PairFiles(TextFiles):
    """Files, folders (every `*.tsv` and `*.txt` below) and globs with SOURCE tab TARGET a line.

    Each sentence is a document, every source before its target, without white space around it. Columns
    after the second, such as Tatoeba's attribution, are left out, and that is said.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".tsv", ".txt")

    def __init__(
        self, paths: Sequence[str | Path], report: Callable[[str], None] = lambda line: None
    ):
        super().__init__(paths)
        self._report = report

    def _documents(self, path: Path) -> Iterator[Piece]:
        faults: dict[str, list[int]] = {}
        longer = number = 0
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
                longer += len(columns) > 2
                yield Piece(source, True)
                yield Piece(target, True)
        if faults:
            raise UserError(*(_fault(path, what, lines) for what, lines in faults.items()))
        if longer:
            self._report(
                f"{path}: {longer:,} lines have more than two columns: the first two are read"
            )


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _fault(path: Path, what: str, lines: list[int]) -> str:
    named = ", ".join(map(str, lines[:LINES_NAMED]))
    more = f" and {len(lines) - LINES_NAMED:,} more" if len(lines) > LINES_NAMED else ""
    have = f"{len(lines):,} lines have" if len(lines) > 1 else "1 line has"
    return (
        f"{path}: {have} {what} (line{'s' * (len(lines) > 1)} {named}{more});"
        " each should be SOURCE, a tab, TARGET"
    )
