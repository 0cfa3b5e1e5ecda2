"""The endpoints of the server."""

import asyncio
import base64
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import minigpt
from minigpt.errors import UserError
from minigpt.notices import LOGGER
from minigpt.serving.bodies import Body, ChatBody, CompletionBody, RequestError, read_body
from minigpt.serving.completions import Completion, ServedModel, read_chat, read_completion
from minigpt.serving.scheduler import Scheduler, TextPart
from minigpt.targets.html.file_page import write_file_page


class ServedPage:
    """The page of a portable file or of its run, written into a folder when it is first asked for."""

    def __init__(self, file: Path, run: Path | None, folder: Path) -> None:
        self._file, self._run, self._folder = file, run, folder
        self._lock = threading.Lock()

    def written(self) -> Path:
        """Returns the file with the page.

        Raises:
          UserError, OSError: the run or the portable file is not there any more.
        """
        page = self._folder / "page" / "page.html"
        with self._lock:
            if not page.exists():
                page.parent.mkdir(exist_ok=True)
                unfinished = self._folder / "page.unfinished"
                if self._run is None:
                    write_file_page(self._file, unfinished)
                else:
                    # Importing this takes as long as starting the server.
                    from minigpt.targets.html.model_page import write_page

                    write_page(minigpt.Run(self._run), unfinished)
                unfinished.rename(page)
        return page


class Server:
    """The endpoints and their shared state."""

    def __init__(self, model: ServedModel, scheduler: Scheduler, page: ServedPage) -> None:
        self._model, self.scheduler, self._page = model, scheduler, page

    async def completions(self, request: Request) -> Response:
        body = await self._read(request, CompletionBody)
        return await self._answered(request, await read_completion(body, self._model))

    async def chat_completions(self, request: Request) -> Response:
        body = await self._read(request, ChatBody)
        return await self._answered(request, await read_chat(body, self._model))

    async def _read(self, request: Request, schema: type[Body]) -> Body:
        body = await read_body(request, schema)
        self._check_model(body.model)
        return body

    async def _answered(self, request: Request, completion: Completion) -> Response:
        """Generates the texts of a request."""
        self.scheduler.submit(completion.work)
        parts = self._parts(completion)

        def end() -> None:
            self.scheduler.cancel(completion.work)

        if completion.body.stream:
            return _EventStream(completion.events(parts), end)
        try:
            return JSONResponse(await _unless_disconnected(request, completion.answer(parts)))
        finally:
            end()

    async def _parts(self, completion: Completion) -> AsyncIterator[tuple[int, TextPart]]:
        """Yields the numbers of texts and what is ready of them whenever the next part is asked for."""
        generations, event = completion.generations, completion.event
        unfinished = set(range(len(generations)))
        while unfinished:
            await event.wait()
            event.clear()
            for number in sorted(unfinished):
                if part := generations[number].take():
                    if part.finish_reason == "error":
                        raise RequestError(500, "the text could not be generated")
                    if part.finish_reason is not None:
                        unfinished.remove(number)
                    yield number, part

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._described_model()]})

    async def one_model(self, request: Request) -> Response:
        self._check_model(request.path_params["name"])
        return JSONResponse(self._described_model())

    def _described_model(self) -> dict[str, Any]:
        return {
            "id": self._model.name,
            "object": "model",
            "created": self._model.created,
            "owned_by": "minigpt",
            "max_model_len": self._model.max_len,
        }

    def _check_model(self, name: str | None) -> None:
        if name not in (None, self._model.name):
            # The name may be long: it is not repeated.
            message = f"the model does not exist; should be {self._model.name!r}"
            raise RequestError(404, message, "model", "model_not_found")

    async def page(self, request: Request) -> Response:
        try:
            file = await asyncio.to_thread(self._page.written)
        except (OSError, UserError) as error:
            LOGGER.warning("The page cannot be written: %s", error)
            message = "the files of the model have been removed or damaged since the server started"
            raise RequestError(500, message) from None
        # Answers 304 if the browser has the page.
        answer = await StaticFiles(directory=file.parent).get_response(file.name, request.scope)
        # A browser keeps the page, and asks each time whether it is still the same.
        answer.headers["Cache-Control"] = "no-cache"
        return answer

    async def health(self, request: Request) -> Response:
        if not self.scheduler.is_healthy:
            return JSONResponse({"status": "an engine has stopped"}, 503)
        texts = {"running": self.scheduler.running, "waiting": self.scheduler.waiting}
        return JSONResponse({"status": "ok", **texts})


def build_application(server: Server, hosts: set[str] | None, api_key: str | None) -> Starlette:
    """Returns the application; the engines run while it does.

    Args:
      hosts: the names that requests may give to this server; None for any.
      api_key: the key that requests need; None for no key.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        server.scheduler.start(asyncio.get_running_loop())
        yield
        await asyncio.to_thread(server.scheduler.close)

    posts = {"completions": server.completions, "chat/completions": server.chat_completions}
    routes = [
        # Some programs for llama.cpp omit the version.
        *(Route(f"{v}/{n}", posts[n], methods=["POST"]) for n in posts for v in ("/v1", "")),
        Route("/v1/models", server.models),
        Route("/v1/models/{name:path}", server.one_model),
        Route("/healthz", server.health),
        Route("/health", server.health),
        Route("/", server.page),
    ]
    handlers: dict[Any, Callable[[Request, Any], Awaitable[Response]]] = {
        RequestError: _on_request_error,
        ClientDisconnect: _on_disconnect,
        HTTPException: _on_http_exception,
        # Starlette prints the traceback; the answer has none.
        Exception: _on_bug,
    }
    guard = Middleware(Guard, hosts=hosts, api_key=api_key)
    application = Starlette(
        routes=routes, exception_handlers=handlers, middleware=[guard], lifespan=lifespan
    )
    application.router.redirect_slashes = False
    return application


class Guard:
    """Refuses requests without the key, and those that give another host name.

    A web page whose name resolves to this machine could read the answers in a browser (DNS rebinding).
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


class _EventStream(StreamingResponse):
    """A stream of events; `end` is called after it, also if its client has gone before the first event."""

    def __init__(self, events: AsyncIterator[str], end: Callable[[], None]) -> None:
        super().__init__(
            events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"}
        )
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


async def _unless_disconnected(request: Request, answer: Awaitable[Any]) -> Any:
    """Returns the answer; raises a `ClientDisconnect` if the client goes away before."""
    task = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for future in (task, gone):
            future.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _on_request_error(request: Request, error: RequestError) -> Response:
    return error.response()


async def _on_disconnect(request: Request, error: Exception) -> Response:
    return PlainTextResponse("", 499)  # The client does not read it.


async def _on_http_exception(request: Request, error: HTTPException) -> Response:
    message = {404: "there is no such endpoint", 405: "the method is not allowed here"}
    shown = message.get(error.status_code, "the request cannot be used")
    response = RequestError(error.status_code, shown).response()
    response.headers.update(error.headers or {})
    return response


async def _on_bug(request: Request, error: Exception) -> Response:
    message = "an error of the server; its operator finds it in the server's output"
    return RequestError(500, message).response()
