"""The sources of text: for each, a fingerprint and the documents."""

import codecs
import hashlib
import json
import re
import sysconfig
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

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
from minigpt.notices import LOGGER
from minigpt.storage.atomic import atomic_file
from minigpt.storage.downloads import download
from minigpt.storage.files import bundled_file, cache_folder


@dataclass(frozen=True)
class Source:
    """A source that is not a list of files.

    Attributes:
      fingerprint: returns a hash of what determines the documents, not of names or dates.
      pieces: yields the documents, always in the same order; UserError if they cannot be read.
    """

    fingerprint: Callable[[], str]
    pieces: Callable[[], Iterator[Piece]]


def open_source(data: DataConfig, with_val_paths: bool = True) -> Source | TextFiles:
    """Returns the source that `data.source` names, with or without the user's own validation text."""
    val_paths = getattr(data, "val_paths", []) if with_val_paths else []
    match data:
        case FilesConfig():
            # A file that both name is one of the validation text.
            files = TextFiles([*val_paths, *data.paths], data.document_separator, data.field)
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
        # The hash of a download is known: an existing token store makes the download unnecessary.
        case ImdbConfig():
            return Source(lambda: data.sha256, lambda: imdb_reviews(data.url, data.sha256))
        case ShakespeareConfig():
            separator = data.document_separator
            return Source(
                lambda: data.sha256,
                lambda: TextFiles([download(data.url, data.sha256)], separator).pieces(),
            )
        case PythonConfig():
            return Source(_python_fingerprint, python_library)
        case _:
            return Source(
                lambda: FINGERPRINT, lambda: (Piece(story.encode(), True) for story in stories())
            )


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
    LOGGER.info("%s: copying the rows to %s", setting, copy)
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
        raise UserError(f"{setting}: {(str(error) or repr(error)).splitlines()[0]}") from None
    return copy


def python_library() -> Iterator[Piece]:
    """Yields the source code of the installed Python standard library; every file is a document."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if _SKIPPED.isdisjoint(path.relative_to(library).parts) and path.is_file():
            text = path.read_bytes().removeprefix(codecs.BOM_UTF8)
            try:
                text.decode()
            except UnicodeDecodeError:
                continue
            yield Piece(text, True)


_SKIPPED = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test"})


def _python_fingerprint() -> str:
    digests = (hashlib.sha256(piece.text).digest() for piece in python_library())
    return hashlib.sha256(b"".join(digests)).hexdigest()


_REVIEW = re.compile(r"aclImdb/(train|test)/(pos|neg)/[^/.][^/]*\.txt")


def imdb_reviews(url: str, sha256: str) -> Iterator[Piece]:
    """Yields the labelled reviews of the Large Movie Review Dataset, one document each, sorted by name.

    Maas et al. 2011, https://ai.stanford.edu/~amaas/data/sentiment/. Each `<br />` becomes a space.
    """
    archive, reviews = download(url, sha256), dict[str, bytes]()
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                # Neither links nor folders.
                if member.isreg() and _REVIEW.fullmatch(member.name):
                    text = cast(IO[bytes], tar.extractfile(member)).read()
                    reviews[member.name] = text.decode().replace("<br />", " ").encode()
    except (tarfile.TarError, EOFError, zlib.error, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{url}: not a readable archive of IMDB reviews: {error}") from None
    if not reviews:
        raise UserError(f"{url}: contains no IMDB reviews")
    return (Piece(reviews[name], True) for name in sorted(reviews))


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
