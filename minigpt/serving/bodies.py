"""Reading the bodies of requests."""

import asyncio
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from minigpt.serving.errors import RequestError, invalid_body

Body = TypeVar("Body", bound=BaseModel)
# A client that sends its request more slowly holds a connection for nothing.
_BODY_SECONDS = 30


async def read_body(request: Request, schema: type[Body], most_bytes: int) -> Body:
    """Reads and checks the body of a request.

    Raises:
      RequestError: it is too large, arrives too slowly, or is not what the schema describes.
    """
    # A page of another origin can send other types without asking (CORS).
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
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
        return schema.model_validate_json(bytes(data))
    except ValidationError as error:
        raise invalid_body(error) from None
