"""Checks the host and the key of every request."""

import asyncio
import base64
import secrets
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minigpt.serving.schema import RequestError


class Guard:
    """Refuses requests without the key.

    A web page whose name resolves to this machine could read the answers in a browser (DNS rebinding):
    requests to other host names are refused.

    Args:
      app: the application.
      hosts: the names that requests may give to this server; None for any.
      api_key: the key; None if there is none.
    """

    def __init__(self, app: ASGIApp, hosts: set[str] | None, api_key: str | None) -> None:
        self._app, self._hosts, self._api_key = app, hosts, api_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def noticing(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            if error := self._refusal(scope):
                await error.response()(scope, receive, send)
            else:
                await self._app(scope, receive, noticing)
        except asyncio.CancelledError:
            # The server stops, and has waited for long enough.
            if not has_started:
                await RequestError(503, "the server stops").response()(scope, receive, send)

    def _refusal(self, scope: Scope) -> RequestError | None:
        headers = Headers(scope=scope)
        if self._hosts is not None and _host_name(headers.get("host", "")) not in self._hosts:
            return RequestError(403, "the host is not one that this server answers for")
        if self._api_key is not None and scope["path"] != "/healthz":
            given = _given_key(headers.get("authorization", ""))
            if not secrets.compare_digest(given.encode(), self._api_key.encode()):
                return RequestError(401, "the API key is missing or wrong", code="invalid_api_key")
        return None


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _given_key(authorization: str) -> str:
    """Returns the key of a header: `Bearer KEY`, or `Basic` with the key as the password."""
    kind, _, value = authorization.partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        with suppress(ValueError):
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
    return ""
