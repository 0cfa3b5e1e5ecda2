"""Measures tokens per second of a server with 32 slots and 64 texts at a time, so that no slot is empty.

The client runs on the same cores as the server. It does little more than to send the bytes of requests
and to receive those of answers.
"""

import asyncio
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from benchmarks.llama_cpp import server
from benchmarks.measuring import PROMPT, Outcome

FILE = "run-first-word/model.gguf"
SLOTS, THREADS, TASKS, TOKENS = 16, 2, 64, 60


class Connection:
    """A connection to a server, opened again if the server closes it, as llama.cpp's does."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> None:
        """Asks, and reads an answer, whose status is 200."""
        try:
            await self._exchange(path, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._streams = None
            await self._exchange(path, body)

    async def _exchange(self, path: str, body: bytes) -> None:
        host = self._address.hostname
        if self._streams is None:
            self._streams = await asyncio.open_connection(host, self._address.port)
        reader, writer = self._streams
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status, *headers = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        assert status.split()[1] == "200", status
        values = dict(line.lower().split(": ", 1) for line in headers if line)
        await reader.readexactly(int(values["content-length"]))


def _measure(url: str, path: str, seconds: float, request: Callable[[int], dict]) -> Outcome:
    """Measures tokens per second; the texts of the first two seconds are not counted."""

    async def all_tasks() -> float:
        done, began = 0, time.monotonic() + 2
        end = began + seconds

        async def task(number: int) -> None:
            nonlocal done
            connection = Connection(url)
            while (now := time.monotonic()) < end:
                await connection.post(path, json.dumps(request(number)).encode())
                number += TASKS
                done += TOKENS if now >= began else 0

        await asyncio.gather(*map(task, range(TASKS)))
        return done / (time.monotonic() - began)

    return {"value": asyncio.run(all_tasks())}


def _request(number: int) -> dict[str, Any]:
    prompt = " ".join(random.Random(number).choices(PROMPT.split(), k=1 + number % 12))
    return {"prompt": prompt, "temperature": 1.0, "top_k": 10, "seed": number}


def over_http(seconds: float) -> Outcome:
    """Measures `minigpt serve`."""
    import minigpt

    # Without the ban, a text might end early.
    banned = {str(minigpt.load_portable(FILE).tokenizer.end_id): -100}
    options = ("--port", "0", "--threads", str(THREADS), "--slots", str(SLOTS))
    command = [sys.executable, "-m", "minigpt", "serve", FILE, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = next(iter(process.stderr or ()), "")
        if not (found := re.search(r"at (http://\S+)\. ", line)):
            raise ValueError(f"the server did not start: {line}")
        return _measure(
            found[1],
            "/v1/completions",
            seconds,
            lambda number: _request(number) | {"max_tokens": TOKENS, "logit_bias": banned},
        )
    finally:
        process.terminate()
        process.wait()


def llama_cpp(seconds: float) -> Outcome:
    """Measures llama.cpp's server on the same file."""
    import minigpt

    context = minigpt.load_portable(FILE).max_len
    opened = server(FILE, THREADS, context, SLOTS * THREADS)
    fixed = {"n_predict": TOKENS, "ignore_eos": True, "cache_prompt": False}
    return _measure(
        opened.listening_address, "/completion", seconds, lambda number: _request(number) | fixed
    )
