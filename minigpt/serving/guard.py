"""Checks the host and the key of every request, and counts requests for Prometheus."""

import asyncio
import base64
import secrets
import time
from contextlib import suppress
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minigpt.serving.scheduler import Scheduler
from minigpt.serving.schema import RequestError

# The client has gone away.
_NO_ANSWER = 499
# Labels of metrics: any other path is counted as "other".
_ENDPOINTS = {
    "/",
    "/healthz",
    "/metrics",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/models",
}
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The counters of the server.

    Args:
      scheduler: the texts that run and wait.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ("endpoint", "status")
        self.requests = Counter("minigpt_requests", "Answered requests.", labels, registry=registry)
        self.request_seconds = Histogram(
            "minigpt_request_seconds",
            "Time from a request to the end of its answer.",
            ("endpoint",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.first_token_seconds = Histogram(
            "minigpt_first_token_seconds",
            "Time from a request to its first tokens, including time in the queue.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.prompt_tokens = Counter(
            "minigpt_prompt_tokens", "Tokens of prompts.", registry=registry
        )
        self.new_tokens = Counter("minigpt_new_tokens", "Generated tokens.", registry=registry)
        running = Gauge("minigpt_running_texts", "Texts being generated.", registry=registry)
        running.set_function(lambda: scheduler.running)
        waiting = Gauge(
            "minigpt_waiting_texts", "Texts that wait for an engine.", registry=registry
        )
        waiting.set_function(lambda: scheduler.waiting)


class Guard:
    """Refuses requests without the key, and counts all.

    A web page whose name resolves to this machine could read the answers in a browser (DNS rebinding):
    requests to other host names are refused.

    Args:
      app: the application.
      hosts: the names that requests may give to this server; None for any.
      api_key: the key; None if there is none.
      metrics: what counts the requests.
    """

    def __init__(
        self, app: ASGIApp, hosts: set[str] | None, api_key: str | None, metrics: Metrics
    ) -> None:
        self._app, self._hosts, self._api_key, self._metrics = app, hosts, api_key, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), _NO_ANSWER

        async def counting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        endpoint = scope["path"] if scope["path"] in _ENDPOINTS else "other"
        try:
            if error := self._refusal(scope):
                await error.response()(scope, receive, counting)
            else:
                await self._app(scope, receive, counting)
        except asyncio.CancelledError:
            # The server stops, and has waited for long enough.
            if status == _NO_ANSWER:
                await RequestError(503, "the server stops").response()(scope, receive, counting)
        except Exception:
            status = 500
            raise
        finally:
            self._metrics.requests.labels(endpoint, status).inc()
            self._metrics.request_seconds.labels(endpoint).observe(time.monotonic() - began)

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
