"""Settings of `[data]`: where the text comes from and how it is split."""

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from minigpt.config.section import SHA256_PATTERN, Fraction, Positive, Section

IMDB_URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
IMDB_SHA256 = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
SHAKESPEARE_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
)
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
_DOWNLOADS = {
    "imdb": (IMDB_URL, IMDB_SHA256),
    "shakespeare": (SHAKESPEARE_URL, SHAKESPEARE_SHA256),
}

# Sources whose text is files of the user's.
TAKES_PATHS = ("files", "pairs")


class DataConfig(Section):
    source: Literal["stories", "files", "imdb", "shakespeare", "python", "pairs"] = Field(
        "stories", description="where the text comes from; pairs: of sentences to translate"
    )
    paths: list[str] = Field(
        [], description="files, folders and globs, for source = 'files' and 'pairs'"
    )
    document_separator: str | None = Field(
        None, min_length=1, description="text that stands between two documents of one file"
    )
    val_fraction: Fraction = Field(
        0.1, description="share of the documents held out from everything that is learned"
    )
    val_pairs: Positive | None = Field(
        None, description="pairs held out, in place of a share of them, for source = 'pairs'"
    )
    length_buckets: Positive = Field(
        4, description="shapes of batches at most, for source = 'pairs'; each is compiled once"
    )
    url: str | None = Field(None, description="address of a download; file:// works too")
    sha256: str | None = Field(
        None, pattern=SHA256_PATTERN, description="what the download must hash to"
    )

    @field_validator("paths")
    @classmethod
    def _files_need_paths(cls, paths: list[str], info: ValidationInfo) -> list[str]:
        source = info.data.get("source")
        if source in TAKES_PATHS and not paths:
            raise PydanticCustomError(
                "paths", "should name at least one file for source = '{source}'", {"source": source}
            )
        if source and paths and source not in TAKES_PATHS:
            raise PydanticCustomError(
                "paths",
                "should not be set for source = '{source}', which reads none; is source = 'files' meant?",
                {"source": source},
            )
        return paths

    @field_validator("document_separator", "val_pairs")
    @classmethod
    def _lines_of_pairs(cls, value: Any, info: ValidationInfo) -> Any:
        pairs = info.data.get("source") == "pairs"
        if (
            value is not None
            and "source" in info.data
            and pairs != (info.field_name == "val_pairs")
        ):
            raise PydanticCustomError(
                "pairs",
                "should not be set for source = '{source}'",
                {"source": info.data["source"]},
            )
        return value

    @field_validator("document_separator")
    @classmethod
    def _separates_files(cls, value: str | None, info: ValidationInfo) -> str | None:
        source = info.data.get("source")
        if value and source in ("stories", "imdb", "python"):
            raise PydanticCustomError(
                "document_separator",
                "should not be set for source = '{source}', whose documents are known",
                {"source": source},
            )
        return value

    @field_validator("url", "sha256")
    @classmethod
    def _published_download(cls, value: str | None, info: ValidationInfo) -> str | None:
        published = _DOWNLOADS.get(info.data.get("source", ""))
        if value and not published and "source" in info.data:
            raise PydanticCustomError(
                "download",
                "should not be set for source = '{source}', which downloads nothing",
                {"source": info.data["source"]},
            )
        if value is None and published:
            return published[0 if info.field_name == "url" else 1]
        return value
