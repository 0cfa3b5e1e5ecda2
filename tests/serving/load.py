"""How `minigpt serve` answers many clients at once: `python -m tests.serving.load MODEL.gguf SECONDS`.

Every client asks for texts, as streams and as a whole. Each is compared with the one that `generate`
returns for the same prompt and seed. A client that gets status 429 waits a second.
"""

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

import minigpt

SLOTS, THREADS, TOKENS = 16, 2, 60
WORDS = [
    "Once",
    "upon",
    "a",
    "time",
    "there",
    "was",
    "little",
    "girl",
    "dog",
    "park",
    "saw",
    "ball",
]
WARM_UP_SECONDS = 30  # Before the memory is compared: all slots have been used by then.


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
    wrong, memory = 0, list[tuple[float, int]]()
    end = time.monotonic() + seconds

    async def client(number: int, http: httpx2.AsyncClient) -> None:
        nonlocal wrong
        for turn in range(10**9):
            if time.monotonic() > end:
                return
            i = (number + turn * 7) % len(asked)
            try:
                status, text = await ask(http, asked[i], stream=bool(turn % 2))
            except httpx2.HTTPError as error:
                statuses[type(error).__name__] += 1
                continue
            statuses[str(status)] += 1
            if status == 429:
                await asyncio.sleep(1)
            elif status == 200:
                wrong += text != expected[i]

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
    return {
        "statuses": dict(statuses),
        "wrong_texts": wrong,
        "memory_growth_mb": round((max(warm) - warm[0]) / 1e6, 1),
    }


async def ask(http: httpx2.AsyncClient, request: dict[str, Any], stream: bool) -> tuple[int, str]:
    """Returns the status and the text."""
    path, parts = "/v1/completions", []
    if not stream:
        answer = await http.post(path, json=request)
        text = answer.json()["choices"][0]["text"] if answer.status_code == 200 else ""
        return answer.status_code, text
    async with http.stream("POST", path, json={**request, "stream": True}) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                parts.append(json.loads(line[6:])["choices"][0]["text"])
    return answer.status_code, "".join(parts)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(load(Path(sys.argv[1]), 200, float(sys.argv[2])))))
