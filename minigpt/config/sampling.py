"""Settings of `[sampling]`: how the next token is chosen."""

import re
from typing import Annotated

from pydantic import Field, field_validator

from minigpt.config.section import Positive, Section

MOST_NEW_TOKENS = 1_000_000


class SamplingConfig(Section):
    prompts: list[str] = Field([""], description="what the samples after an epoch continue")
    max_new_tokens: int = Field(40, ge=0, le=MOST_NEW_TOKENS, description="tokens to add at most")
    temperature: float = Field(
        1.0, ge=0, description="0 is greedy, 1 is the model's own distribution"
    )
    top_k: int = Field(
        10, ge=0, lt=2**31, description="draw from the k likeliest tokens; 0: no limit"
    )
    top_p: float = Field(
        1.0, gt=0, le=1, description="draw from the fewest tokens with this much probability"
    )
    min_p: float = Field(
        0.0,
        ge=0,
        le=1,
        description="draw from tokens at least p times as probable as the likeliest",
    )
    repetition_penalty: float = Field(
        1.0, gt=0, description="above 1: what the text holds comes less often"
    )
    beams: Positive = Field(
        1, le=1000, description="above 1: beam search for the likeliest text; nothing is drawn"
    )
    length_penalty: float = Field(
        1.0, description="of beam search: higher favours longer texts; 0: none"
    )
    stop: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="strings that end a text; not part of it"
    )
    banned_tokens: list[Annotated[int, Field(ge=0)]] = Field([], description="ids never to draw")
    seed: int = Field(0, ge=0, lt=2**31, description="the same seed gives the same text")
    print_every: Positive = Field(1, description="epochs between two looks at what it writes")
    translations: int = Field(
        5, ge=0, description="held-out sentences whose translation is shown, for pairs"
    )

    @field_validator("prompts")
    @classmethod
    def _prompts_are_unicode(cls, prompts: list[str]) -> list[str]:
        if any(re.search("[\ud800-\udfff]", prompt) for prompt in prompts):
            raise ValueError("should be valid Unicode, without halves of surrogate pairs")
        return prompts
