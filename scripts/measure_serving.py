"""Measures `minigpt serve`: many clients for some minutes, then its speed.

    python scripts/measure_serving.py MODEL.gguf [--clients 200] [--seconds 300] [--rounds 3]

Needs the extra `serve`, httpx2, and Linux; llama.cpp's server is measured if xllamacpp is installed. The
clients run on the same cores as the server.

Load: every client asks for texts, as streams and as a whole. Each is compared with the one that `generate`
returns for the same prompt and seed. A client that gets status 429 waits a second.

Speed: as many texts at a time as the server has slots, each of 60 tokens, for 20 seconds and round:
over HTTP, through the same scheduler in a process without HTTP, and by llama.cpp's server.
"""

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2

import minigpt

SLOTS, THREADS, TOKENS, SECONDS = 16, 2, 60, 20
TASKS = 2 * SLOTS * THREADS  # A text waits for each slot, so that none is empty.
WORDS = [
    "Once",
    "upon",
    "a",
    "time",
    "there",
    "was",
    "little",
    "girl",
    "boy",
    "dog",
    "the",
    "park",
    "saw",
    "big",
    "red",
    "ball",
]
WARM_UP_SECONDS = 30  # Before the memory is compared: all slots have been used by then.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=300.0, help="0: no load")
    parser.add_argument("--rounds", type=int, default=3, help="0: no measurement of speed")
    parser.add_argument("--speed-of", choices=SPEEDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.speed_of:
        print(asyncio.run(SPEEDS[arguments.speed_of](arguments.model)))
        return
    found: dict[str, Any] = {}
    if arguments.seconds:
        found["load"] = asyncio.run(load(arguments.model, arguments.clients, arguments.seconds))
    if arguments.rounds:
        found["tokens_per_second"] = speeds(arguments.model, arguments.rounds)
    print(json.dumps(found, indent=2))


def requests(end_id: int) -> list[dict[str, Any]]:
    """Requests for texts of `TOKENS` tokens: the end token is banned."""
    draw = random.Random(0)
    return [
        {
            "prompt": " ".join(draw.choices(WORDS, k=draw.randint(1, 12))),
            "max_tokens": TOKENS,
            "temperature": 1.0,
            "top_k": 10,
            "seed": seed,
            "logit_bias": {str(end_id): -100},
        }
        for seed in range(64)
    ]


def alone(model: minigpt.PortableTextModel) -> list[str]:
    """The text of each request, generated alone."""
    end_id = model.tokenizer.end_id
    settings: dict[str, Any] = {"temperature": 1.0, "top_k": 10, "banned_tokens": (end_id,)}
    return [
        model.generate(request["prompt"], TOKENS, seed=request["seed"], **settings)[0]
        for request in requests(end_id)
    ]


@contextmanager
def serving(model: Path) -> Iterator[tuple[str, int]]:
    """A server: its address and process id."""
    options = ("--port", "0", "--threads", str(THREADS), "--slots", str(SLOTS))
    command = [sys.executable, "-m", "minigpt", "serve", str(model), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = next(iter(process.stderr or ()), "")
        if not (found := re.search(r"at (http://\S+)\. ", line)):
            sys.exit(f"the server did not start: {line}")
        yield found[1], process.pid
    finally:
        process.terminate()
        process.wait()


async def load(path: Path, clients: int, seconds: float) -> dict[str, Any]:
    """Returns what `clients` clients have seen."""
    model = minigpt.load_portable(path)
    assert isinstance(model, minigpt.PortableTextModel)
    asked, expected = requests(model.tokenizer.end_id), alone(model)
    statuses: Counter[str] = Counter()
    wrong, first_seconds, memory = 0, list[float](), list[tuple[float, int]]()
    end = time.monotonic() + seconds

    async def client(number: int, http: httpx2.AsyncClient) -> None:
        nonlocal wrong
        for turn in range(10**9):
            if time.monotonic() > end:
                return
            i = (number + turn * 7) % len(asked)
            try:
                status, text, first = await ask(http, asked[i], stream=bool(turn % 2))
            except httpx2.HTTPError as error:
                statuses[type(error).__name__] += 1
                continue
            statuses[str(status)] += 1
            if status == 429:
                await asyncio.sleep(1)
            elif status == 200:
                wrong += text != expected[i]
                if first is not None:
                    first_seconds.append(first)

    async def watch(process: int) -> None:
        start = time.monotonic()
        while True:
            pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
            memory.append((time.monotonic() - start, pages * os.sysconf("SC_PAGE_SIZE")))
            await asyncio.sleep(1)

    limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)
    with serving(path) as (url, process):
        async with httpx2.AsyncClient(base_url=url, limits=limits, timeout=120) as http:
            watching = asyncio.create_task(watch(process))
            await asyncio.gather(*(client(number, http) for number in range(clients)))
            watching.cancel()
    warm = [size for moment, size in memory if moment >= min(WARM_UP_SECONDS, seconds / 2)]
    answered = statuses["200"]
    return {
        "clients": clients,
        "seconds": seconds,
        "statuses": dict(statuses),
        "wrong_texts": wrong,
        "tokens_per_second": round(answered * TOKENS / seconds),
        "first_token_seconds_p50": round(statistics.median(first_seconds), 3),
        "first_token_seconds_p99": round(statistics.quantiles(first_seconds, n=100)[-1], 3),
        "memory_mb": round(warm[-1] / 1e6),
        "memory_growth_mb": round((max(warm) - warm[0]) / 1e6, 1),
    }


async def ask(
    http: httpx2.AsyncClient, request: dict[str, Any], stream: bool, path: str = "/v1/completions"
) -> tuple[int, str, float | None]:
    """Returns the status, the text, and in a stream the seconds to its first event."""
    if not stream:
        answer = await http.post(path, json=request)
        text = answer.json()["choices"][0]["text"] if answer.status_code == 200 else ""
        return answer.status_code, text, None
    began, first, parts = time.monotonic(), None, []
    async with http.stream("POST", path, json={**request, "stream": True}) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                first = first or time.monotonic() - began
                parts.append(json.loads(line[6:])["choices"][0]["text"])
    return answer.status_code, "".join(parts), first


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
    asked = requests(model.tokenizer.end_id)
    with serving(path) as (url, _):
        async with httpx2.AsyncClient(base_url=url, timeout=120) as http:

            async def work(number: int) -> int:
                status, _, _ = await ask(http, asked[number % len(asked)], stream=False)
                assert status == 200
                return TOKENS

            return await repeated(work)


async def speed_without_http(path: Path) -> float:
    from minigpt.portable.settings import Settings
    from minigpt.serving.generation import Generation, TextRequest, parts_of
    from minigpt.serving.scheduler import Scheduler

    model = minigpt.load_portable(path)
    banned = (model.tokenizer.end_id,)
    settings = Settings(TOKENS, temperature=1.0, top_k=10, banned_tokens=banned)
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
    asked = requests(model.tokenizer.end_id)
    async with httpx2.AsyncClient(base_url=server.listening_address, timeout=120) as http:

        async def work(number: int) -> int:
            request = asked[number % len(asked)]
            body = {name: request[name] for name in ("prompt", "temperature", "top_k", "seed")}
            body |= {"n_predict": TOKENS, "ignore_eos": True, "cache_prompt": False}
            answer = await http.post("/completion", json=body)
            return int(answer.json()["tokens_predicted"])

        return await repeated(work)


SPEEDS: dict[str, Callable[[Path], Coroutine[Any, Any, float]]] = {
    "without HTTP": speed_without_http,
    "over HTTP": speed_over_http,
    "llama.cpp": speed_of_llama_cpp,
}

if __name__ == "__main__":
    main()
