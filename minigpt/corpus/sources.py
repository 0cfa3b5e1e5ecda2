"""The sources of text: for each, a fingerprint and the documents, which `read_text` reads."""

import codecs
import hashlib
import json
import re
import sysconfig
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import zstandard

from minigpt.config import DataConfig, DialoguesConfig, FilesConfig, PairsConfig
from minigpt.config import data as sections
from minigpt.config.complete import CHARACTERS_BELOW, LONG_TEXT, TextSize
from minigpt.corpus.dialogues import Dialogues
from minigpt.corpus.documents import PIECE_BYTES, Documents, Piece, ingest
from minigpt.corpus.split import split_corpus, without_copies
from minigpt.corpus.text_files import PairFiles, TextFiles
from minigpt.corpus.token_ids import IdFiles
from minigpt.environment import install_command
from minigpt.errors import UserError
from minigpt.notices import LOGGER
from minigpt.storage.atomic import atomic_file
from minigpt.storage.downloads import download
from minigpt.storage.files import bundled, cache_folder

# Settings with which lines or paragraphs are documents.
DIVIDE = 'data.by_line = true or data.document_separator = "\\n\\n"'
# The bytes of UTF-8 that do not begin a character.
_CONTINUATION = bytes(range(0x80, 0xC0))


@contextmanager
def cache_errors() -> Iterator[None]:
    """Turns an OSError of the cache folder into a `UserError`."""
    try:
        yield
    except BrokenPipeError:  # Of standard output, not of the folder.
        raise
    except OSError as error:
        name = error.filename or cache_folder()
        raise UserError(f"{name}: {error.strerror or error}") from error


@dataclass
class Source:
    """A text that is not in files of the user.

    Attributes:
      read: yields the documents, always in the same order; UserError if they cannot be read.
      sha256: a hash of what determines them; "" if it is not known before they are read.
    """

    read: Callable[[], Iterator[Piece]]
    sha256: str = ""

    def pieces(self) -> Iterator[Piece]:
        """Yields the documents."""
        digests = hashlib.sha256()
        for piece in self.read():
            digests.update(hashlib.sha256(piece.text).digest())
            yield piece
        self.sha256 = self.sha256 or digests.hexdigest()

    def fingerprint(self) -> str:
        """Returns the hash; reads the documents if it is not known."""
        for _ in () if self.sha256 else self.pieces():
            pass
        return self.sha256


@dataclass
class Text:
    """A text that was read once.

    Attributes:
      size: without the user's own validation text.
      documents: all documents; None when they are no longer needed.
      start: its first byte in `documents`, which begin with the user's own validation text.
    """

    source: Source | TextFiles
    fingerprint: str
    size: TextSize
    documents: Documents | None
    start: int = 0


def read_text(data: DataConfig, source: Source | TextFiles | None = None) -> Text:
    """Reads a text once, for its size, its hash and its documents, of which the cache folder has a copy.

    Args:
      source: what `open_source` has opened; None to open it.
    Raises:
      UserError: with all problems of the text, or because it cannot be copied.
    """
    source = source or cast(Source | TextFiles, open_source(data))
    LOGGER.info("reading the text")
    with cache_errors():
        cache_folder().mkdir(parents=True, exist_ok=True)
        found = ingest(source.pieces(), cache_folder())
    own, total = len(getattr(data, "val_paths", [])), len(found.text)
    # The texts of `data.val_paths` come first.
    start = sum(cast(TextFiles, source).path_bytes[:own]) if own else 0
    blocks = (found.text[n : n + PIECE_BYTES] for n in range(start, total, PIECE_BYTES))
    size, characters = total - start, sum(len(b.translate(None, _CONTINUATION)) for b in blocks)
    different = set(found.text[start : start + LONG_TEXT].decode(errors="ignore"))
    documents = without_copies(found, data)
    if copies := len(found) - len(documents):
        LOGGER.info(f"{copies:,} copies of documents are left out; {len(documents):,} remain")
        size, characters = (round(n * documents.bytes / total) for n in (size, characters))
    elif isinstance(data, FilesConfig) and data.duplicates == "drop":
        LOGGER.info(f"no document is a copy of another; with {DIVIDE}, there are more documents")
    share = 1.0 if own else None
    # Chats are read again when it is known who answers.
    is_open = isinstance(source, Dialogues) and source.speakers and not getattr(data, "me", None)
    is_short = size < CHARACTERS_BELOW and not isinstance(data, PairsConfig)
    if len(documents) and not own and is_short and not is_open:
        # The batch for a short text depends on what is left for training.
        train, _ = split_corpus(documents, data)
        share = sum(len(text) for text, _ in train.pieces()) / characters
    measured = TextSize(size, characters, len(different), share)
    return Text(source, source.fingerprint(), measured, documents, start)


def read_own(data: FilesConfig | DialoguesConfig) -> tuple[FilesConfig | DialoguesConfig, Text]:
    """Reads a text of the user. Returns its settings, too: those of dialogues if all files have dialogues.

    In chats, `me` becomes the person whose messages are the answers.

    Raises:
      UserError: with all problems of the text, or `me` is given and there are no chats.
    """
    other = None
    # Several texts with weights are read as texts.
    if isinstance(data, FilesConfig) and not data.weights:
        files = cast(TextFiles, open_source(data))
        other = files.no_dialogues()
        if not other and not files.problems:
            given = data.model_dump(exclude_unset=True, include=set(DialoguesConfig.model_fields))
            data = DialoguesConfig(**given | {"source": "dialogues"})
    text, name = read_text(data), source_name(data)
    source = text.source
    speakers = source.speakers if isinstance(source, Dialogues) else None
    if data.me and not speakers:
        raise UserError(f"data.me = {data.me!r}: is for chats; {other or name} is none")
    if isinstance(source, Dialogues) and isinstance(data, DialoguesConfig) and speakers:
        me = data.me or max((n, speakers[who], who) for who, n in source.chats.items())[2]
        people = f"{me}, of {len(speakers):,} people (data.me)"
        LOGGER.info(f"{name}: a chat; the model answers as {people}")
        if data.me is None:
            data = data.model_copy(update={"me": me})
            text = read_text(data)
    elif isinstance(data, DialoguesConfig) and data.paths:
        LOGGER.info(f"{name}: dialogues; the model learns to answer")
    return data, text


def open_source(data: DataConfig) -> Source | TextFiles | IdFiles:
    """Returns the source that `data.source` names. The user's own validation text comes first."""
    match data:
        case FilesConfig():
            # A file that both name is one of the validation text.
            files = text_files([*data.val_paths, *data.paths], data)
            if data.weights is not None and len(data.weights) != len(data.paths):
                given = f"data.weights = {data.weights!r}"
                files.problems.append(f"{given}: should have a number for each of data.paths")
            return files
        case sections.DatasetsConfig():
            return TextFiles([dataset_path(data.name, data.split)], field=data.field)
        case PairsConfig():
            return PairFiles(data.paths)
        case sections.IdsConfig():
            return IdFiles(data.paths)
        case DialoguesConfig():
            return Dialogues(data.paths, data.val_paths, data.me)
        # The hash of a download is known: an existing token store makes the download unnecessary.
        case sections.ImdbConfig():
            return Source(lambda: imdb_reviews(data.url, data.sha256), data.sha256)
        case sections.ShakespeareConfig():
            url, sha256 = data.url, data.sha256
            return Source(lambda: text_files([download(url, sha256)], data).pieces(), sha256)
        case sections.PythonConfig():
            return Source(python_library)
        case sections.StoriesConfig():
            return Source(lambda: (Piece(s.encode(), True) for s in stories()), FINGERPRINT)
    raise NotImplementedError(f"data.source = {data.source!r}")


def text_files(paths: Sequence[str | Path], data: DataConfig) -> TextFiles:
    """Returns files of texts that are read by the settings of a source, as far as it has them."""
    settings = data.model_dump(include={"field", "by_line", "keep_gutenberg"})
    return TextFiles(paths, getattr(data, "document_separator", None), **settings)


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
        skipped = {"site-packages", "dist-packages", "test", "tests", "idle_test"}
        if skipped.isdisjoint(path.relative_to(library).parts) and path.is_file():
            text = path.read_bytes().removeprefix(codecs.BOM_UTF8)
            with suppress(UnicodeDecodeError):
                text.decode()
                yield Piece(text, True)


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


# Of the stories; runs record it. A test compares both.
FINGERPRINT = "d04e5d4fcd83a1d3ed53ff4dd1d959aa4c6d418980622bda100f15fc8bfd13b7"
# Between two stories. A story has one paragraph per line.
SEPARATOR = "\n\n"


def stories() -> Iterator[str]:
    """Yields the 6,300 stories, 5.6 MB of ASCII text in all.

    A story has one or more paragraphs, one per line, and no final newline.
    """
    text = zstandard.ZstdDecompressor().decompress(bundled("data/stories.txt.zst").read_bytes())
    yield from text.decode("ascii").split(SEPARATOR)
