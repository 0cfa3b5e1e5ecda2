"""Answers with whole texts, and as streams of events."""

import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from minigpt.serving.completions import Completion
from minigpt.serving.errors import RequestError
from minigpt.serving.generation import Part
from minigpt.serving.protocol import EVENT_STREAM
from minigpt.serving.scheduler import Computation

T = TypeVar("T")


class EventStream(StreamingResponse):
    """A stream of events.

    Args:
      events: the events.
      end: called when the stream has ended, also if its client has gone away before the first event.
    """

    def __init__(self, events: AsyncIterator[str], end: Callable[[], None]) -> None:
        super().__init__(
            events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"}
        )
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"][EVENT_STREAM] = True
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


async def results_of(computations: Sequence[Computation]) -> list[Any]:
    """Returns the results of computations.

    Raises:
      RequestError: one of them failed.
    """
    try:
        return [await computation.future for computation in computations]
    except Exception as error:
        traceback.print_exception(error)
        raise RequestError(500, "the text could not be read") from None


async def whole_answer(
    completion: Completion,
    computations: Sequence[Computation],
    parts: AsyncIterator[tuple[int, Part]],
) -> dict[str, Any]:
    """Returns the answer to a request that wants no stream."""
    if completion.body.echo:
        completion.echo_prompts(await results_of(computations))
    found = [Part() for _ in completion.requests]
    async for number, part in parts:
        found[number] += part
    return completion.answer(found)


async def unless_disconnected(request: Request, answer: Awaitable[T]) -> T:
    """Returns the answer; no longer waits for it if the client goes away.

    Raises:
      ClientDisconnect: it went away.
    """
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


async def events_of(
    completion: Completion,
    computations: Sequence[Computation],
    parts: AsyncIterator[tuple[int, Part]],
) -> AsyncIterator[str]:
    """Yields server-sent events."""
    options = completion.body.stream_options
    shows_usage = options is not None and options.include_usage
    offsets = dict.fromkeys(range(len(completion.requests)), 0)
    used = 0

    def event(number: int, part: Part) -> str:
        envelope = completion.envelope([completion.choice(number, part, offsets[number])])
        offsets[number] += sum(token.length for token in part.tokens)
        return _event({**envelope, "usage": None} if shows_usage else envelope)

    try:
        if completion.body.echo:
            completion.echo_prompts(await results_of(computations))
        for number, part in completion.first_parts():
            yield event(number, part)
        async for number, part in parts:
            used += part.token_count
            yield event(number, part)
    except RequestError as error:
        yield _event({"error": error.content()})
        return
    if shows_usage:
        yield _event({**completion.envelope([]), "usage": completion.usage(used)})
    yield "data: [DONE]\n\n"


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n"
