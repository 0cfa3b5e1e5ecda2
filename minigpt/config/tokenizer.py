"""Settings of `[tokenizer]`."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from minigpt.config.section import SHA256_PATTERN, Section

# As OpenAI publishes them, for all sizes of GPT-2.
GPT2_ENCODER_URL = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json"
GPT2_ENCODER_SHA256 = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
GPT2_MERGES_URL = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe"
GPT2_MERGES_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
GPT2_VOCAB_SIZE = 50257


class TokenizerConfig(Section):
    kind: Literal["word", "character", "byte_pair", "gpt2"] = Field(
        "byte_pair", description="what a token is"
    )
    vocab_size: int = Field(
        2048, ge=4, description="most entries of the vocabulary, special tokens included"
    )
    lowercase: bool = Field(False, description="lower-case all text first (what is lost is lost)")
    encoder_url: str | None = Field(
        None, description="for kind = 'gpt2': address of encoder.json; file:// works too"
    )
    encoder_sha256: str | None = Field(
        None, pattern=SHA256_PATTERN, description="what encoder.json must hash to"
    )
    merges_url: str | None = Field(
        None, description="for kind = 'gpt2': address of vocab.bpe; file:// works too"
    )
    merges_sha256: str | None = Field(
        None, pattern=SHA256_PATTERN, description="what vocab.bpe must hash to"
    )

    @model_validator(mode="before")
    @classmethod
    def _published_vocabulary(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("kind") == "gpt2":
            return {
                "vocab_size": GPT2_VOCAB_SIZE,
                "encoder_url": GPT2_ENCODER_URL,
                "encoder_sha256": GPT2_ENCODER_SHA256,
                "merges_url": GPT2_MERGES_URL,
                "merges_sha256": GPT2_MERGES_SHA256,
                **given,
            }
        return given

    @field_validator("vocab_size")
    @classmethod
    def _room_for_bytes(cls, vocab_size: int, info: ValidationInfo) -> int:
        # 256 bytes, <end>, the unknown token, and at least one pair.
        if info.data.get("kind") == "byte_pair" and vocab_size < 259:
            raise PydanticCustomError(
                "vocab_size",
                "should be at least 259 for kind = 'byte_pair': all 256 bytes are in it",
            )
        return vocab_size

    @field_validator("lowercase")
    @classmethod
    def _case_is_published_too(cls, lowercase: bool, info: ValidationInfo) -> bool:
        if lowercase and info.data.get("kind") == "gpt2":
            raise PydanticCustomError(
                "lowercase", "should be false for kind = 'gpt2': its vocabulary has both cases"
            )
        return lowercase

    @field_validator("encoder_url", "encoder_sha256", "merges_url", "merges_sha256")
    @classmethod
    def _files_are_gpt2s(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("kind", "gpt2") != "gpt2":
            raise PydanticCustomError("files", "is for kind = 'gpt2' alone")
        return value
