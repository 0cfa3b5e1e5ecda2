"""Settings of `[tokenizer]`. One class for each kind of tokenizer."""

from typing import Annotated, Literal

from pydantic import Field, Tag

from minigpt.config.section import SHA256_PATTERN, Section, selected_by

# As OpenAI publishes them, for all sizes of GPT-2.
GPT2_ENCODER_URL = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json"
GPT2_ENCODER_SHA256 = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
GPT2_MERGES_URL = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe"
GPT2_MERGES_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
GPT2_VOCAB_SIZE = 50257
MAX_VOCAB_SIZE = 10_000_000

VOCAB_SIZE = "maximum number of vocabulary entries, special tokens included"
Sha256 = Annotated[str, Field(pattern=SHA256_PATTERN)]


class TokenizerConfig(Section):
    """Settings that every kind of tokenizer has. The subclasses are the kinds."""

    kind: str
    """the unit of text that is one token"""
    vocab_size: int = Field(description=VOCAB_SIZE)


class LearnedConfig(TokenizerConfig):
    """Settings of the kinds whose vocabulary is learned from the training text."""

    lowercase: bool = False
    """convert all text to lower case first; the case is lost"""


class BytePairConfig(LearnedConfig):
    """Byte pairs, learned from the training text."""

    kind: Literal["byte_pair"] = "byte_pair"
    # 256 bytes, the end token, the unknown token and one pair.
    vocab_size: int = Field(2048, ge=259, le=MAX_VOCAB_SIZE, description=VOCAB_SIZE)


class CharacterConfig(LearnedConfig):
    """Characters (Unicode code points) of the training text, and bytes of UTF-8 for all others."""

    kind: Literal["character"] = "character"
    # If bytes were counted, smaller values than 245 would leave no room for characters.
    vocab_size: int = Field(512, ge=4, le=MAX_VOCAB_SIZE)
    """maximum number of characters and special tokens; tokens for bytes are not counted"""


class WordConfig(LearnedConfig):
    """Words and punctuation of the training text."""

    kind: Literal["word"] = "word"
    vocab_size: int = Field(20_000, ge=4, le=MAX_VOCAB_SIZE, description=VOCAB_SIZE)


class GPT2Config(TokenizerConfig):
    """The published vocabulary of GPT-2, or another one in the same two file formats."""

    kind: Literal["gpt2"] = "gpt2"
    vocab_size: int = Field(GPT2_VOCAB_SIZE, ge=4, le=MAX_VOCAB_SIZE, description=VOCAB_SIZE)
    encoder_url: str = GPT2_ENCODER_URL
    """address of encoder.json; file:// is supported"""
    encoder_sha256: Sha256 = GPT2_ENCODER_SHA256
    """SHA-256 that encoder.json should have"""
    merges_url: str = GPT2_MERGES_URL
    """address of vocab.bpe; file:// is supported"""
    merges_sha256: Sha256 = GPT2_MERGES_SHA256
    """SHA-256 that vocab.bpe should have"""


class GivenConfig(TokenizerConfig):
    """A tokenizer that the user has. Training copies its file into the run.

    "sentencepiece": a .model of sentencepiece. "huggingface": a tokenizer.json of the tokenizers package.
    "listed": a text file with the name of each token id, one a line, or a meta.pkl of nanoGPT.
    "run": the tokenizer of another run.
    """

    kind: Literal["sentencepiece", "huggingface", "listed", "run"] = "listed"
    path: str = ""
    """the file, or the folder of the run"""
    vocab_size: int = Field(
        0, ge=0, le=MAX_VOCAB_SIZE, description=f"{VOCAB_SIZE}; 0 for that of the file"
    )


AnyTokenizer = Annotated[
    Annotated[BytePairConfig, Tag("byte_pair")]
    | Annotated[CharacterConfig, Tag("character")]
    | Annotated[WordConfig, Tag("word")]
    | Annotated[GPT2Config, Tag("gpt2")]
    | Annotated[GivenConfig, Tag("sentencepiece")]
    | Annotated[GivenConfig, Tag("huggingface")]
    | Annotated[GivenConfig, Tag("listed")]
    | Annotated[GivenConfig, Tag("run")],
    selected_by("kind", "byte_pair"),
]
