"""The bodies of requests: how they are read and checked, and their fields; and the errors of requests.

Source: https://platform.openai.com/docs/api-reference/completions.
"""

import asyncio
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.requests import Request
from starlette.responses import JSONResponse

from minigpt.config.sampling import DISTRIBUTION

MOST_CHARACTERS = 80
# Errors before the body has been read, or at the end of the server.
_UNREAD = (401, 403, 408, 413, 415, 503)


class RequestError(Exception):
    """A request that is not answered: its HTTP status, what is wrong, the field, a name for the error."""

    def __init__(
        self, status: int, message: str, field: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.field, self.code = status, message, field, code

    def response(self) -> JSONResponse:
        headers = {"Retry-After": "1"} if self.status == 429 else {}
        if self.status in _UNREAD:
            headers["Connection"] = "close"
        if self.status == 401:
            # Browsers ask for the key as a password.
            headers["WWW-Authenticate"] = 'Basic realm="minigpt"'
        return JSONResponse({"error": self.content()}, self.status, headers)

    def content(self) -> dict[str, str | None]:
        """Returns the error as OpenAI's protocol describes it."""
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
            self.status, "server_error" if self.status >= 500 else "invalid_request_error"
        )
        return {"message": self.message, "type": kind, "param": self.field, "code": self.code}


def problem(field: str, value: object, message: str) -> RequestError:
    """Returns the error of one field."""
    shown = repr(value)
    if len(shown) > MOST_CHARACTERS:
        shown = shown[:MOST_CHARACTERS] + "..."
    return RequestError(400, f"{field} = {shown}: {message}", field)


# The first mistake in a list is reported: reporting all of a million would take seconds.
_Strings = Annotated[list[str], Field(fail_fast=True)]
_Ids = Annotated[list[int], Field(fail_fast=True)]
# A text, several texts, token ids, or several lists of them.
Texts = str | _Strings | _Ids | Annotated[list[_Ids], Field(fail_fast=True)]
# OpenAI's limit for the texts of a request.
MOST_TEXTS = 128
_Stop = Annotated[str, Field(min_length=1, max_length=200)]
# Field → what it should be, where pydantic describes one alternative of several.
_UNIONS = {
    "prompt": "should be a string, a list of strings, a list of token ids, or a list of such lists",
    "messages": "should be a list of at most 10,000 objects with role and content",
    "stop": "should be at most 16 strings of 1 to 200 characters",
}
MOST_PROBLEMS = 1000
MOST_BYTES = 2**20
# A client that sends its request more slowly holds a connection for nothing.
_BODY_SECONDS = 30


class _Body(BaseModel):
    # Unknown fields are refused: one that has no effect would not be noticed.
    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")

    model: str | None = None
    user: str | None = None


Body = TypeVar("Body", bound=_Body)


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    include_usage: bool = False
    # Padding against readers of encrypted traffic; accepted, and not needed here.
    include_obfuscation: bool = False


# The settings check their values themselves: `completions.py`.
_FIELDS: Any = {setting.name: (Any, None) for setting in DISTRIBUTION if "gguf" in setting.formats}
_Distribution: Any = create_model("_Distribution", __base__=_Body, **_FIELDS)


class _TextBody(_Distribution):
    """The fields of all requests for texts. A field that is None has the value of the model's settings.

    They have all settings that change a distribution. OpenAI defines only `temperature` and `top_p`.
    """

    max_tokens: Annotated[int, Field(ge=0)] | None = None
    n: Annotated[int, Field(ge=1, le=MOST_TEXTS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: _Stop | Annotated[list[_Stop], Field(max_length=16, fail_fast=True)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    # Checked in completions.py: pydantic would report every mistake.
    logit_bias: dict[str, Any] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None


class CompletionBody(_TextBody):
    """The body of `/v1/completions`."""

    prompt: Texts | None = None
    suffix: Literal[""] | None = None
    logprobs: Annotated[int, Field(ge=0, le=10)] | None = None
    echo: Literal[False] | None = None


class ChatBody(_TextBody):
    """The body of `/v1/chat/completions`."""

    # `check_messages` checks each.
    messages: Annotated[list[Any], Field(max_length=10_000)]
    max_completion_tokens: Annotated[int, Field(ge=0)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=10)] | None = None
    response_format: dict[Literal["type"], Literal["text"]] | None = None


async def read_body(request: Request, schema: type[Body]) -> Body:
    """Reads and checks the body of a request.

    Raises:
      RequestError: it is too large, arrives too slowly, or does not match the schema.
    """
    # A page of another origin can send other types without asking (CORS).
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestError(415, "Content-Type: should be application/json")
    data = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > MOST_BYTES:
                    raise RequestError(413, f"the body should have at most {MOST_BYTES} bytes")
    except TimeoutError:
        raise RequestError(408, f"the body should arrive within {_BODY_SECONDS} s") from None
    try:
        return schema.model_validate_json(bytes(data))
    except ValidationError as error:
        raise _invalid_body(error) from None


def _invalid_body(error: ValidationError) -> RequestError:
    """Returns the error for a body that is not what the endpoint takes: its first problem."""
    # Listing 100,000 problems takes half a second.
    if (count := error.error_count()) > MOST_PROBLEMS:
        return RequestError(400, f"the body has {count} errors, most of them unknown fields")
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if not first["loc"]:
        expected = "a JSON object" if first["type"] == "model_type" else "valid JSON"
        return RequestError(400, f"the body should be {expected}")
    # For a union, the name of the alternative follows that of the field.
    place = first["loc"] if first["loc"][0] == "stream_options" else first["loc"][:1]
    field = ".".join(map(str, place))[:MOST_CHARACTERS]
    messages = {"missing": "missing", "extra_forbidden": "unknown field"}
    message = messages.get(first["type"], first["msg"].removeprefix("Input "))
    return RequestError(400, f"{field}: {_UNIONS.get(field, message)}", field)
