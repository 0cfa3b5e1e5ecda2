"""Settings of `[data]`: where the text comes from and how it is split. One class for each source."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Tag
from pydantic_core import PydanticCustomError

from minigpt.config.section import SHA256_PATTERN, Fraction, Positive, Section, selected_by

IMDB_URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
IMDB_SHA256 = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
SHAKESPEARE_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
)
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


def _check_paths(paths: list[str]) -> list[str]:
    if not paths:
        raise PydanticCustomError("paths", "should name at least one file")
    return paths


Paths = Annotated[list[str], AfterValidator(_check_paths)]
Url = Annotated[str, Field(description="address of the download; file:// is supported")]
Sha256 = Annotated[
    str, Field(pattern=SHA256_PATTERN, description="SHA-256 that the download should have")
]
Separator = Annotated[
    str | None, Field(min_length=1, description="text between two documents of a file")
]


class DataConfig(Section):
    """Settings that every source has. The subclasses are the sources."""

    source: str = Field(description="where the text comes from")
    val_fraction: Fraction = Field(
        0.1,
        description="share of the documents held out for validation; copies of a document stay together",
    )
    license: str | None = Field(
        None,
        min_length=1,
        description="license of the text, which the portable file and the page name",
    )


class StoriesConfig(DataConfig):
    """Short stories that the package generates."""

    source: Literal["stories"] = "stories"


class FilesConfig(DataConfig):
    """Text files of the user."""

    source: Literal["files"] = "files"
    paths: Paths = Field(
        [],
        description="text files, folders (every *.txt below), glob patterns, .gz files; at least one",
    )
    document_separator: Separator = None


class ImdbConfig(DataConfig):
    """Movie reviews: the IMDB archive."""

    source: Literal["imdb"] = "imdb"
    url: Url = IMDB_URL
    sha256: Sha256 = IMDB_SHA256


class ShakespeareConfig(DataConfig):
    """Plays of Shakespeare: one text file that is downloaded."""

    source: Literal["shakespeare"] = "shakespeare"
    url: Url = SHAKESPEARE_URL
    sha256: Sha256 = SHAKESPEARE_SHA256
    document_separator: Separator = None


class PythonConfig(DataConfig):
    """The source files of the Python standard library."""

    source: Literal["python"] = "python"


class PairsConfig(DataConfig):
    """Pairs of sentences to translate, in files of the user."""

    source: Literal["pairs"] = "pairs"
    paths: Paths = Field(
        [],
        description="files of pairs, folders (every *.tsv and *.txt below), glob patterns, .gz files; "
        "at least one",
    )
    val_pairs: Positive | None = Field(
        None,
        description="number of pairs held out for validation, at most half of all; val_fraction if unset",
    )
    length_buckets: Positive = Field(
        4, description="maximum number of batch shapes; each shape is compiled once"
    )


class IdsConfig(DataConfig):
    """Token ids of the user; see docs/token-ids.md."""

    source: Literal["ids"] = "ids"
    paths: Paths = Field(
        [],
        description="files of token ids, .bin or .npy, or folders of them; those whose names begin with "
        "val are for validation; at least one",
    )


AnyData = Annotated[
    Annotated[StoriesConfig, Tag("stories")]
    | Annotated[FilesConfig, Tag("files")]
    | Annotated[ImdbConfig, Tag("imdb")]
    | Annotated[ShakespeareConfig, Tag("shakespeare")]
    | Annotated[PythonConfig, Tag("python")]
    | Annotated[PairsConfig, Tag("pairs")]
    | Annotated[IdsConfig, Tag("ids")],
    selected_by("source", "stories"),
]
