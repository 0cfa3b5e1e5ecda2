"""200 clients for five minutes: no error but 429, no wrong text, memory stays flat."""

import itertools
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.serving.running import serving

CLIENTS, SECONDS, WARM_UP_SECONDS = 200, 300, 30


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_200_clients(tiny_run, model):
    settings = {"temperature": 1.0, "top_k": 10}
    prompts = [("Ana sat on the roof. " * 3)[: 3 * seed % 60] for seed in range(64)]
    expected = [model.generate(p, 60, seed=seed, **settings)[0] for seed, p in enumerate(prompts)]
    end = time.monotonic() + SECONDS
    with serving(tiny_run.path, "--threads", "2", "--slots", "16") as served:

        def client(number: int) -> Counter[int]:
            statuses: Counter[int] = Counter()
            for turn in itertools.count():
                if time.monotonic() > end:
                    return statuses
                seed = (number + 7 * turn) % len(prompts)
                fields = {"prompt": prompts[seed], "max_tokens": 60, "seed": seed, **settings}
                status, data = served.ask("/v1/completions", fields)
                statuses[status] += 1
                if status == 429:
                    time.sleep(1)
                else:
                    assert json.loads(data)["choices"][0]["text"] == expected[seed]

        sizes = []
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(client, number) for number in range(CLIENTS)]
            time.sleep(WARM_UP_SECONDS)  # All slots have been used by then.
            while time.monotonic() < end:
                pages = int(Path(f"/proc/{served.process.pid}/statm").read_text().split()[1])
                sizes.append(pages * os.sysconf("SC_PAGE_SIZE"))
                time.sleep(1)
        statuses = sum((client.result() for client in clients), Counter[int]())
    assert statuses.keys() <= {200, 429} and statuses[200] > 200, statuses
    assert max(sizes) - sizes[0] < 50e6
