"""Settings of `[data]`: where the text comes from and how it is split. One class for each source."""

from typing import Annotated, Literal

from pydantic import Field, Tag

from minigpt.config.section import SHA256_PATTERN, Fraction, Positive, Section, selected_by

IMDB_URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
IMDB_SHA256 = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
SHAKESPEARE_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
)
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


Paths = Annotated[list[str], Field(min_length=1)]
Url = Annotated[str, Field(description="address of the download; file:// is supported")]
Sha256 = Annotated[
    str, Field(pattern=SHA256_PATTERN, description="SHA-256 that the download should have")
]
Separator = Annotated[
    str | None, Field(min_length=1, description="text between two documents of a file")
]
TextColumn = Annotated[
    str | None,
    Field(
        min_length=1,
        description="column of the texts, for files with rows; if unset, `text` or the one of long texts",
    ),
]
Me = Annotated[
    str | None,
    Field(
        min_length=1,
        description="the person in a chat whose messages the model learns to write; if unset, the one "
        "who is in most chats and has most messages",
    ),
]
Duplicates = Annotated[
    Literal["keep", "drop"],
    Field(description="whether copies of a document are kept; the first one always is"),
]
ValPaths = Annotated[
    list[str],
    Field(description="as paths: the validation text, in place of a held-out part of the text"),
]


class DataConfig(Section):
    """Settings that every source has. The subclasses are the sources."""

    source: str
    """where the text comes from"""
    val_fraction: Fraction = 0.1
    """share of the text held out for validation; copies of a document stay together"""
    license: str | None = Field(None, min_length=1)
    """license of the text, which the portable file and the page name"""


class StoriesConfig(DataConfig):
    """Short stories that the package generates."""

    source: Literal["stories"] = "stories"


class FilesConfig(DataConfig):
    """Files of the user: text, documents, rows with a column of texts, or chats."""

    source: Literal["files"] = "files"
    paths: Paths = Field([])
    """files of the kinds in docs/data.md, such as .txt, .epub, .pdf, .csv, .jsonl and .zip, folders, glob
    patterns, - for standard input; at least one"""
    field: TextColumn = None
    document_separator: Separator = None
    by_line: bool | None = None
    """whether each line of a file of text is a document; if unset, those of lists, such as of names"""
    keep_gutenberg: bool = False
    """whether the headers and licenses of Project Gutenberg are kept"""
    me: Me = None
    duplicates: Duplicates = "keep"
    val_paths: ValPaths = Field([])
    weights: list[Annotated[float, Field(gt=0)]] | None = None
    """the rate at which each path is read, such as [3, 1]; by size if unset"""


class DatasetsConfig(DataConfig):
    """A data set that the package datasets reads: of the Hugging Face hub, or of a folder."""

    source: Literal["datasets"] = "datasets"
    name: str = Field("", min_length=1)
    """its name on the hub, with a colon before the name of a configuration, or a folder"""
    split: str = Field("train", min_length=1)
    """the part of the data set that is read"""
    field: TextColumn = None
    duplicates: Duplicates = "keep"


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


class DialoguesConfig(DataConfig):
    """Dialogues, in files of the user, or those of the package."""

    source: Literal["dialogues"] = "dialogues"
    paths: list[str] = Field([])
    """files of dialogues, one a row, or chats, folders (every such file below), glob patterns; the bundled
    questions about small worlds if empty"""
    val_paths: ValPaths = Field([])
    me: Me = None
    duplicates: Duplicates = "keep"


class PairsConfig(DataConfig):
    """Pairs of sentences to translate, in files of the user."""

    source: Literal["pairs"] = "pairs"
    paths: Paths = Field([])
    """files of pairs, folders (every *.tsv and *.txt below), glob patterns, .gz files; at least one"""
    val_pairs: Positive | None = None
    """number of pairs held out for validation, at most half of all; val_fraction if unset"""
    length_buckets: Positive = 4
    """maximum number of batch shapes; each shape is compiled once"""


class IdsConfig(DataConfig):
    """Token ids of the user; see docs/token-ids.md."""

    source: Literal["ids"] = "ids"
    paths: Paths = Field([])
    """files of token ids, .bin or .npy, or folders of them; those whose names begin with val are for
    validation; at least one"""


AnyData = Annotated[
    Annotated[StoriesConfig, Tag("stories")]
    | Annotated[FilesConfig, Tag("files")]
    | Annotated[DatasetsConfig, Tag("datasets")]
    | Annotated[ImdbConfig, Tag("imdb")]
    | Annotated[ShakespeareConfig, Tag("shakespeare")]
    | Annotated[PythonConfig, Tag("python")]
    | Annotated[PairsConfig, Tag("pairs")]
    | Annotated[DialoguesConfig, Tag("dialogues")]
    | Annotated[IdsConfig, Tag("ids")],
    selected_by("source", "stories"),
]
