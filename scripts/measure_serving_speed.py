"""Measures the speed of `minigpt serve`.

    python scripts/measure_serving_speed.py MODEL.gguf [--rounds 3]

Needs the extra `dev` and Linux; llama.cpp's server is measured if xllamacpp is installed.

Twice as many texts at a time as the server has slots, each of 60 tokens, for 20 seconds and round: over
HTTP, through the same scheduler in a process without HTTP, and by llama.cpp's server. The client runs on
the same cores as the server. It does little more than to send the bytes of requests and to receive those
of answers; its share of the processor time is printed.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from measure_serving import SLOTS, THREADS, TOKENS, requests, serving

import minigpt

SECONDS = 20
TASKS = 2 * SLOTS * THREADS  # A text waits for each slot, so that none is empty.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--speed-of", choices=SPEEDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.speed_of:
        print(asyncio.run(SPEEDS[arguments.speed_of](arguments.model)))
    else:
        print(json.dumps(speeds(arguments.model, arguments.rounds), indent=2))


class Client:
    """Connections to a server, one for each task."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._address = (address.hostname, address.port)
        self._connections: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def post(self, task: int, path: str, body: bytes) -> bytes:
        """Returns the content of an answer, whose status is 200."""
        try:
            return await self._exchange(task, path, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            # llama.cpp's server closes each connection after a number of requests.
            del self._connections[task]
            return await self._exchange(task, path, body)

    async def _exchange(self, task: int, path: str, body: bytes) -> bytes:
        if task not in self._connections:
            self._connections[task] = await asyncio.open_connection(*self._address)
        reader, writer = self._connections[task]
        head = f"POST {path} HTTP/1.1\r\nHost: {self._address[0]}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status, *headers = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        assert status.split()[1] == "200", status
        values = dict(line.lower().split(": ", 1) for line in headers if line)
        return await reader.readexactly(int(values["content-length"]))


def speeds(model: Path, rounds: int) -> dict[str, Any]:
    """Returns the medians of the rounds, and of the ratios to the speed without HTTP."""
    names = [name for name in SPEEDS if name != "llama.cpp" or find_spec("xllamacpp")]
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            command = [sys.executable, __file__, str(model), "--speed-of", name]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[name].append(float(done.stdout.splitlines()[-1]))
    base = found["without HTTP"]
    return {
        name: {
            "median": round(statistics.median(values)),
            "ratio": round(statistics.median(a / b for a, b in zip(values, base, strict=True)), 3),
        }
        for name, values in found.items()
    }


async def repeated(work: Callable[[int], Awaitable[int]]) -> float:
    """Returns tokens per second of TASKS tasks; `work` generates the text of a number."""
    done, end, began = 0, 0.0, 0.0

    async def task(number: int) -> None:
        nonlocal done
        while (now := time.monotonic()) < end:
            tokens = await work(number)
            number += TASKS
            done += tokens if now >= began else 0

    began = time.monotonic() + 2  # The first texts are not counted.
    end = began + SECONDS
    await asyncio.gather(*(task(number) for number in range(TASKS)))
    return done / (time.monotonic() - began)


async def speed_over_http(path: Path) -> float:
    model = minigpt.load_portable(path)
    asked = [json.dumps(request).encode() for request in requests(model.tokenizer.end_id)]
    with serving(path) as (url, process):
        client = Client(url)

        async def work(number: int) -> int:
            await client.post(number % TASKS, "/v1/completions", asked[number % len(asked)])
            return TOKENS

        own, server = time.process_time(), processor_seconds(process)
        speed = await repeated(work)
        own, server = time.process_time() - own, processor_seconds(process) - server
        share = own / (own + server)
        print(f"over HTTP: the client took {share:.1%} of the processor time", file=sys.stderr)
        return speed


def processor_seconds(process: int) -> float:
    """Returns the processor time of another process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def speed_without_http(path: Path) -> float:
    from minigpt.serving.generation import Generation, TextRequest, parts_of
    from minigpt.serving.scheduler import Scheduler
    from minigpt.targets.gguf.settings import Settings

    model = minigpt.load_portable(path)
    banned = (model.tokenizer.end_id,)
    settings = Settings(max_new_tokens=TOKENS, temperature=1.0, top_k=10, banned_tokens=banned)
    asked = [
        TextRequest(model.tokenizer.encode(request["prompt"]).tolist(), settings, request["seed"])
        for request in requests(model.tokenizer.end_id)
    ]
    scheduler = Scheduler(path, THREADS, SLOTS, most_tokens=4096, most_waiting=TASKS)
    scheduler.start(asyncio.get_running_loop())

    async def work(number: int) -> int:
        event = asyncio.Event()
        generation = Generation(asked[number % len(asked)], model.tokenizer, event, False)
        scheduler.submit([generation])
        return sum([part.token_count async for _, part in parts_of([generation], event)])

    speed = await repeated(work)
    scheduler.close()
    return speed


async def speed_of_llama_cpp(path: Path) -> float:
    import xllamacpp

    model = minigpt.load_portable(path)
    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(path)
    wanted.n_parallel = SLOTS * THREADS
    wanted.n_ctx = SLOTS * THREADS * model.max_len
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = THREADS
    wanted.warmup = True
    server = xllamacpp.Server(wanted)
    client, asked = Client(server.listening_address), []
    for request in requests(model.tokenizer.end_id):
        body = {name: request[name] for name in ("prompt", "temperature", "top_k", "seed")}
        body |= {"n_predict": TOKENS, "ignore_eos": True, "cache_prompt": False}
        asked.append(json.dumps(body).encode())

    async def work(number: int) -> int:
        answer = await client.post(number % TASKS, "/completion", asked[number % len(asked)])
        return int(json.loads(answer)["tokens_predicted"])

    return await repeated(work)


SPEEDS: dict[str, Callable[[Path], Coroutine[Any, Any, float]]] = {
    "without HTTP": speed_without_http,
    "over HTTP": speed_over_http,
    "llama.cpp": speed_of_llama_cpp,
}

if __name__ == "__main__":
    main()
