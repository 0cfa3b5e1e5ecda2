"""The fields of requests: https://platform.openai.com/docs/api-reference/completions and .../embeddings."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

# The first mistake in a list is reported: reporting all of a million would take seconds.
_Strings = Annotated[list[str], Field(fail_fast=True)]
_Ids = Annotated[list[int], Field(fail_fast=True)]
# A text, several texts, token ids, or several lists of them.
Texts = str | _Strings | _Ids | Annotated[list[_Ids], Field(fail_fast=True)]
# What OpenAI's fields of one choice, and of several texts a request, are limited to here.
MOST_TEXTS = 128
MOST_STOPS = 16


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    model: str | None = None
    user: str | None = None


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True)

    include_usage: bool = False
    # Padding against readers of encrypted traffic; accepted, and not needed here.
    include_obfuscation: bool = False


class CompletionBody(_Body):
    """The body of `/v1/completions`. What is None is as the model's settings say.

    `top_k`, `min_p` and `repetition_penalty` are minigpt's own.
    """

    prompt: Texts | None = None
    suffix: Literal[""] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    n: Annotated[int, Field(ge=1, le=MOST_TEXTS)] | None = None
    best_of: Annotated[int, Field(ge=1, le=MOST_TEXTS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: Annotated[int, Field(ge=0, le=10)] | None = None
    echo: bool | None = None
    stop: str | _Strings | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    # Checked in completions.py: pydantic would report every mistake.
    logit_bias: dict[str, Any] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None


class EmbeddingBody(_Body):
    """The body of `/v1/embeddings`."""

    input: Texts
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] | None = None
