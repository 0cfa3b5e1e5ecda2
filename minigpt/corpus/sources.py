"""The sources of text: one class each, with a fingerprint and the documents."""

import codecs
import hashlib
import json
import logging
import os
import re
import sysconfig
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol, cast

import zstandard

from minigpt.config import (
    DataConfig,
    DatasetsConfig,
    DialoguesConfig,
    FilesConfig,
    ImdbConfig,
    PairsConfig,
    PythonConfig,
    ShakespeareConfig,
)
from minigpt.corpus.dialogues import Dialogues
from minigpt.corpus.documents import Piece
from minigpt.corpus.text_files import PairFiles, TextFiles
from minigpt.environment import install_command
from minigpt.errors import UserError
from minigpt.storage.atomic import atomic_file
from minigpt.storage.downloads import download
from minigpt.storage.files import bundled_file, cache_folder

logger = logging.getLogger(__name__)


class Source(Protocol):
    def fingerprint(self) -> str:
        """Returns the SHA-256 of the bytes that determine the documents, not of names or dates."""

    def pieces(self) -> Iterator[Piece]:
        """Yields the documents, always in the same order.

        Raises:
          UserError: with all problems of the text, one line each.
        """


def open_source(data: DataConfig, with_val_paths: bool = True) -> Source:
    """Returns the source that `data.source` names, with or without the user's own validation text."""
    val_paths = getattr(data, "val_paths", []) if with_val_paths else []
    match data:
        case FilesConfig():
            # A file that both name is one of the validation text.
            files = TextFiles([*val_paths, *data.paths], data.document_separator, data.field)
            # Without the validation text, its files could have the column.
            is_whole = val_paths == data.val_paths
            if data.field is not None and is_whole and not (files.problems or files.has_columns):
                given = f"data.field = {data.field!r}"
                files.problems.append(f"{given}: none of the files has columns; should be left out")
            if data.weights is not None and len(data.weights) != len(data.paths):
                given = f"data.weights = {data.weights!r}"
                files.problems.append(f"{given}: should have a number for each of data.paths")
            return files
        case DatasetsConfig():
            return TextFiles([dataset_path(data.name, data.split)], field=data.field)
        case PairsConfig():
            return PairFiles(data.paths)
        case DialoguesConfig():
            return Dialogues(data.paths, val_paths)
        case ImdbConfig():
            return Imdb(data.url, data.sha256)
        case ShakespeareConfig():
            return DownloadedText(data.url, data.sha256, data.document_separator)
        case PythonConfig():
            return PythonLibrary()
        case _:
            return Stories()


def source_name(data: DataConfig) -> str:
    """Returns the name of the text for messages: its paths, or `data.source = '...'`."""
    if paths := getattr(data, "paths", None):
        return ", ".join(paths)
    return f"data.source = {data.source!r}"


def dataset_path(name: str, split: str) -> Path:
    """Returns a file or folder with the rows of a data set, as `TextFiles` reads them.

    A folder that `datasets.save_to_disk` wrote is read where it is. The package `datasets` reads other
    folders, and those of the Hugging Face hub, once into the cache folder. `NAME:PART` is a configuration.

    Raises:
      UserError: the package is not installed, or cannot read the data set.
    """
    folder = Path(name)
    if (folder / "dataset_dict.json").is_file():
        return folder / split
    if (folder / "state.json").is_file():
        return folder
    # A folder may change. What is on the hub is read again if the copy is removed.
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = hashlib.sha256(json.dumps([name, split, states]).encode()).hexdigest()
    copy = cache_folder() / "datasets" / f"{key}.jsonl.zst"
    if copy.is_file():
        return copy
    setting = f"data.name = {name!r}, data.split = {split!r}"
    try:
        import datasets
    except ModuleNotFoundError:
        raise UserError(f"{setting}: not installed: {install_command('datasets')}") from None
    logger.info("%s: copying the rows to %s", setting, copy)
    datasets.disable_progress_bars()
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(copy) as unfinished, zstandard.open(unfinished, "wb") as file:
            base, _, part = (name, "", "") if files else name.partition(":")
            for row in datasets.load_dataset(base, part or None, split=split, streaming=True):
                # Pictures and sounds are no text.
                line = json.dumps(row, default=lambda value: None)
                file.write(line.encode() + b"\n")
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise UserError(f"{setting}: {str(error).partition(os.linesep)[0]}") from None
    return copy


class Stories:
    """The bundled corpus; see `stories`."""

    def fingerprint(self) -> str:
        return FINGERPRINT

    def pieces(self) -> Iterator[Piece]:
        return (Piece(story.encode(), True) for story in stories())


class PythonLibrary:
    """The source code of the installed Python standard library; every file is a document."""

    _SKIPPED = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test"})

    def fingerprint(self) -> str:
        total = hashlib.sha256()
        for piece in self.pieces():
            total.update(hashlib.sha256(piece.text).digest())
        return total.hexdigest()

    def pieces(self) -> Iterator[Piece]:
        library = Path(sysconfig.get_path("stdlib"))
        for path in sorted(library.rglob("*.py")):
            if self._SKIPPED.isdisjoint(path.relative_to(library).parts) and path.is_file():
                text = path.read_bytes().removeprefix(codecs.BOM_UTF8)
                try:
                    text.decode()
                except UnicodeDecodeError:
                    continue
                yield Piece(text, True)


class DownloadedText:
    """A text file from the network."""

    def __init__(self, url: str, sha256: str, separator: str | None):
        self._url, self._sha256, self._separator = url, sha256, separator

    def fingerprint(self) -> str:
        # Known before the download: an existing token store makes the download unnecessary.
        return self._sha256

    def pieces(self) -> Iterator[Piece]:
        return TextFiles([download(self._url, self._sha256)], self._separator).pieces()


class Imdb:
    """The labelled reviews of the Large Movie Review Dataset, one document each, sorted by name.

    Maas et al. 2011, https://ai.stanford.edu/~amaas/data/sentiment/. Each `<br />` becomes a space.
    """

    _REVIEW = re.compile(r"aclImdb/(train|test)/(pos|neg)/[^/.][^/]*\.txt")

    def __init__(self, url: str, sha256: str):
        self._url, self._sha256 = url, sha256

    def fingerprint(self) -> str:
        return self._sha256

    def pieces(self) -> Iterator[Piece]:
        archive = download(self._url, self._sha256)
        # The archive can only be read in its own order; an unnamed file makes sorting possible.
        with tempfile.TemporaryFile() as unsorted:
            spans: dict[str, tuple[int, int]] = {}
            for name, text in self._reviews(archive):
                spans[name] = (unsorted.tell(), len(text))
                unsorted.write(text)
            if not spans:
                raise UserError(f"{self._url}: contains no IMDB reviews")
            for name in sorted(spans):
                start, size = spans[name]
                unsorted.seek(start)
                yield Piece(unsorted.read(size), True)

    def _reviews(self, archive: Path) -> Iterator[tuple[str, bytes]]:
        name = ""
        try:
            with tarfile.open(archive, "r|gz") as tar:
                for member in tar:
                    # tarfile would keep every member it has read.
                    tar.members = []  # type: ignore[attr-defined]
                    name = member.name
                    # Neither links nor folders.
                    if member.isreg() and self._REVIEW.fullmatch(name):
                        text = cast(IO[bytes], tar.extractfile(member)).read()
                        text.decode()
                        yield name, text.replace(b"<br />", b" ")
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise UserError(f"{self._url}: not a readable .tar.gz archive: {error}") from None
        except UnicodeDecodeError as error:
            raise UserError(f"{self._url}: {name}: {error}") from None


# Identifies the text; runs record it. It must be changed together with the text; a test compares both.
FINGERPRINT = "d04e5d4fcd83a1d3ed53ff4dd1d959aa4c6d418980622bda100f15fc8bfd13b7"
# Between two stories. A story has one paragraph per line.
SEPARATOR = "\n\n"


def text_file() -> Path:
    """Returns the compressed text."""
    return bundled_file("stories.txt.zst")


def stories() -> Iterator[str]:
    """Yields the 6,300 stories, 5.6 MB of ASCII text in all.

    A story has one or more paragraphs, one per line, and no final newline.
    """
    text = zstandard.ZstdDecompressor().decompress(text_file().read_bytes())
    yield from text.decode("ascii").split(SEPARATOR)
