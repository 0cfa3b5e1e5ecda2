"""Settings of `[sampling]`: how the next token is chosen."""

import re
from typing import Annotated

from pydantic import Field, field_validator

from minigpt.config.section import Positive, Section

MAX_NEW_TOKENS = 1_000_000


class SamplingConfig(Section):
    prompts: list[str] = Field([""], description="prompts of the samples after an epoch")
    max_new_tokens: int = Field(
        40, ge=0, le=MAX_NEW_TOKENS, description="maximum number of tokens to generate"
    )
    temperature: float = Field(
        1.0, ge=0, description="0: greedy; 1: the distribution of the model unchanged"
    )
    top_k: int = Field(
        10, ge=0, lt=2**31, description="sample from the k most probable tokens; 0: no limit"
    )
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description="sample from the smallest set of tokens with this total probability; 1: no limit",
    )
    min_p: float = Field(
        0.0,
        ge=0,
        le=1,
        description="minimum probability of a token, relative to that of the most probable token",
    )
    repetition_penalty: float = Field(
        1.0, gt=0, description="values above 1 penalize tokens already in the text"
    )
    beams: int = Field(
        1,
        ge=1,
        le=1000,
        description="values above 1: beam search with this many beams, no sampling",
    )
    length_penalty: float = Field(
        1.0, description="for beam search: higher values favor longer texts; 0: none"
    )
    stop: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="strings that end the text; they are not part of it"
    )
    banned_tokens: list[Annotated[int, Field(ge=0)]] = Field(
        [], description="token ids that are never generated"
    )
    seed: int = Field(0, ge=0, lt=2**31, description="the same seed gives the same text")
    print_every: Positive = Field(1, description="epochs between two printed samples")
    translations: int = Field(
        5, ge=0, le=1_000_000, description="for pairs: held-out sentences translated after an epoch"
    )

    @field_validator("prompts")
    @classmethod
    def _prompts_are_unicode(cls, prompts: list[str]) -> list[str]:
        if any(re.search("[\ud800-\udfff]", prompt) for prompt in prompts):
            raise ValueError("should be valid Unicode, without unpaired surrogates")
        return prompts
