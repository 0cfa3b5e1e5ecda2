"""Reading the bodies of requests."""

import asyncio
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import Request

from minigpt.serving.errors import RequestError, invalid_body
from minigpt.serving.schema import StreamOptions

Body = TypeVar("Body", bound=BaseModel)
# A client that sends its request more slowly holds a connection for nothing.
_BODY_SECONDS = 30
_MOST_CHARACTERS = 80


async def read_body(request: Request, schema: type[Body], most_bytes: int) -> Body:
    """Reads and checks the body of a request.

    Raises:
      RequestError: it is too large, arrives too slowly, or is not what the schema describes.
    """
    # A page of another origin can send other types without asking (CORS).
    if (
        request.headers.get("content-type", "").partition(";")[0].strip().lower()
        != "application/json"
    ):
        raise RequestError(415, "Content-Type: should be application/json")
    data = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > most_bytes:
                    raise RequestError(413, f"the body should have at most {most_bytes} bytes")
    except TimeoutError:
        raise RequestError(408, f"the body should arrive within {_BODY_SECONDS} s") from None
    try:
        content = from_json(bytes(data), allow_inf_nan=False)
    except ValueError:
        raise RequestError(400, "the body should be valid JSON") from None
    if not isinstance(content, dict):
        raise RequestError(400, "the body should be a JSON object")
    _check_names(content, schema)
    try:
        return schema.model_validate(content)
    except ValidationError as error:
        raise invalid_body(error) from None


def _check_names(content: dict[str, Any], schema: type[BaseModel], prefix: str = "") -> None:
    """Refuses unknown fields: one that has no effect would not be noticed."""
    for name in content:
        if name not in schema.model_fields:
            shown = prefix + name[:_MOST_CHARACTERS]
            raise RequestError(400, f"{shown}: unknown field", shown)
    options = content.get("stream_options")
    if not prefix and isinstance(options, dict):
        _check_names(options, StreamOptions, "stream_options.")
