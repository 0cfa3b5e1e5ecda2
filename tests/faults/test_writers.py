"""Writers of files are killed in every gap between two operations, or the disk is full.

Afterwards each file is complete or absent, and the next process writes it as expected.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import tiny_text
from tests.faults.operations import NEEDS_SPACE
from tests.faults.warm import Warm

Tally = Callable[..., None]
WRITERS = ("token_store", "a_download", "checkpoints")


class Writer:
    """One of `tests.faults.writers`; every run has a folder of its own."""

    def __init__(self, warm: Warm, folder: Path, function: str, **options: Any) -> None:
        self.warm, self.folder, self.function, self.options = warm, folder, function, options
        # Outside of the folders that are compared.
        self.text = folder / "text.txt"
        self.text.write_text(tiny_text(100), encoding="utf-8")
        self.reference = folder / "reference"
        complete = self.run(self.reference)
        assert complete.status == 0, complete.err
        self.operations = list(dict.fromkeys(complete.operations))

    def run(self, where: Path, **fault: Any):
        where.mkdir(exist_ok=True)
        return self.warm.run(
            f"tests.faults.writers:{self.function}",
            where,
            watch=[where / "cache"],
            text=str(self.text),
            **self.options,
            **fault,
        )

    def assert_next_run_succeeds(self, where: Path) -> None:
        ended = self.run(where)
        assert ended.status == 0, ended.err
        assert content(where) == content(self.reference)


def content(folder: Path) -> dict[str, bytes]:
    """Returns the content of every file, without hidden files of killed processes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.parts)
    }


def kill_in_every_gap(writer: Writer, tally: Tally) -> None:
    expected = content(writer.reference)
    for number, name in enumerate(writer.operations):
        where = writer.folder / f"killed-{number}"
        assert writer.run(where, kill_before=name).was_killed, name
        for file, data in content(where).items():
            assert "step-00000001" in file or expected[file] == data, (name, file)
        writer.assert_next_run_succeeds(where)
    tally(rounds=2 * len(writer.operations), kills=len(writer.operations))


@pytest.mark.parametrize("function", WRITERS)
def test_killed_in_every_gap(function: str, warm: Warm, tmp_path: Path, tally: Tally):
    kill_in_every_gap(Writer(warm, tmp_path, function), tally)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["keras", "huggingface"])
def test_an_export_killed_in_every_gap(
    format: str, warm: Warm, tiny_run, tmp_path: Path, tally: Tally
):
    """The dates in the archive differ, so only the names of the files are compared."""
    writer = Writer(warm, tmp_path, "an_export", run=str(tiny_run.path), format=format)
    names = content(writer.reference).keys()
    for number, name in enumerate(writer.operations):
        where = tmp_path / f"killed-{number}"
        assert writer.run(where, kill_before=name).was_killed, name
        assert content(where).keys() in ({}.keys(), names), name
        if not content(where):
            assert writer.run(where).status == 0
            assert content(where).keys() == names
    tally(rounds=len(writer.operations), kills=len(writer.operations))


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS], ids=["full", "read-only"])
@pytest.mark.parametrize("function", WRITERS[:2])
def test_a_full_or_read_only_disk(
    function: str, number: int, warm: Warm, tmp_path: Path, tally: Tally
):
    writer = Writer(warm, tmp_path, function)
    expected = content(writer.reference)
    names = [name for name in writer.operations if name.startswith(NEEDS_SPACE)]
    for count, name in enumerate(names):
        where = tmp_path / f"full-{count}"
        ended = writer.run(where, full_from=name, errno=number)
        assert ended.is_one_clear_line, (name, ended)
        assert ended.err.count("\n") == 1
        assert content(where).items() <= expected.items()
        # On a read-only disk nothing can be removed.
        left = [path for path in where.rglob("*") if path.is_file()]
        assert number != errno.ENOSPC or len(left) == len(content(where)), left
        writer.assert_next_run_succeeds(where)
    tally(rounds=2 * len(names), faults=len(names))
