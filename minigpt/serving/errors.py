"""Errors of requests, as OpenAI's protocol writes them."""

from starlette.requests import Request
from starlette.responses import JSONResponse

from minigpt.errors import ArgumentProblem

MOST_CHARACTERS = 80
# Errors before the body has been read, or at the end of the server.
_UNREAD = (401, 403, 408, 413, 415, 503)


class RequestError(Exception):
    """A request that is not answered.

    Args:
      status: the HTTP status.
      message: what is wrong, and what would be right.
      field: the field of the request that is wrong.
      code: a name for the kind of error.
    """

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


def as_request_error(error: str) -> RequestError:
    """Returns the error for a problem of a `UserError`."""
    if isinstance(error, ArgumentProblem):
        return problem(error.name, error.value, error.message)
    return RequestError(400, error)


async def on_request_error(request: Request, error: Exception) -> JSONResponse:
    """Answers a request that cannot be used."""
    assert isinstance(error, RequestError)
    return error.response()
