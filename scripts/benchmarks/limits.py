"""What the machine could do: the products of a step and nothing else, and a large copy."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.measuring import Context, Outcome
from benchmarks.our_training import SIZES
from benchmarks.sizes import GPT2_124M, SMALL, Sizes

# How often a product comes, how many of them side by side, and [m, k] x [k, n].
Product = tuple[int, int, int, int, int]
_SECONDS = 0.15
_COPY_BYTES = 1 << 29


def forward_products(sizes: Sizes) -> list[Product]:
    """All products of a forward pass over a batch."""
    tokens, heads = sizes.tokens_per_step, sizes.num_heads * sizes.head_dim
    layers, rows = sizes.num_layers, sizes.batch_size * sizes.num_heads
    return [
        (layers, 1, tokens, sizes.embed_dim, 3 * heads),
        (layers, rows, sizes.length, sizes.head_dim, sizes.length),
        (layers, rows, sizes.length, sizes.length, sizes.head_dim),
        (layers, 1, tokens, heads, sizes.embed_dim),
        (layers, 1, tokens, sizes.embed_dim, sizes.ff_dim),
        (layers, 1, tokens, sizes.ff_dim, sizes.embed_dim),
        (1, 1, tokens, sizes.embed_dim, sizes.vocab_size),
    ]


def decoding_products(sizes: Sizes, seen: int) -> list[Product]:
    """All products of one new token a row, `seen` tokens being in the cache."""
    step = forward_products(replace(sizes, length=1))
    rows = sizes.batch_size * sizes.num_heads
    scores = (sizes.num_layers, rows, 1, sizes.head_dim, seen)
    mixed = (sizes.num_layers, rows, 1, seen, sizes.head_dim)
    return [step[0], scores, mixed, *step[3:]]


def backward_products(products: list[Product]) -> Iterator[Product]:
    """For each product the two of its gradients."""
    for count, side, m, k, n in products:
        yield count, side, m, n, k
        yield count, side, k, m, n


def seconds_of(products: list[Product]) -> float:
    """Of all of them, each by the faster of torch and numpy, into buffers that are there."""
    return sum(product[0] * _fastest(*product[1:]) for product in products)


def _fastest(side: int, m: int, k: int, n: int) -> float:
    import torch

    a, b, c = torch.rand(side, m, k), torch.rand(side, k, n), torch.empty(side, m, n)
    if side > 1:
        return _best(lambda: torch.bmm(a, b, out=c))
    a, b, c = a[0], b[0], c[0]
    arrays = a.numpy(), b.numpy(), c.numpy()
    return min(
        _best(lambda: torch.mm(a, b, out=c)),
        _best(lambda: np.matmul(arrays[0], arrays[1], out=arrays[2])),
    )


def _best(call: Callable[[], Any]) -> float:
    """Seconds of the quickest of the calls that fit into a moment; two at least."""
    call()
    best, end = float("inf"), time.perf_counter() + _SECONDS
    for number in range(10_000):
        began = time.perf_counter()
        call()
        now = time.perf_counter()
        best = min(best, now - began)
        if now > end and number:
            break
    return best


def training(context: Context, system: str) -> Outcome:
    """Tokens a second of a training whose products take all of the time."""
    sizes = SIZES[system]
    forward = forward_products(sizes)
    seconds = seconds_of([*forward, *backward_products(forward)])
    return {"value": sizes.tokens_per_step / seconds}


def decoding(context: Context, rows: int, new_tokens: int) -> Outcome:
    """Tokens a second of a decoding whose products take all of the time."""
    sizes = replace(SMALL, batch_size=rows)
    return {"value": rows / seconds_of(decoding_products(sizes, new_tokens // 2))}


def weights_read(context: Context) -> Outcome:
    """Tokens a second where each token reads every weight of GPT-2 once, at the speed of a copy."""
    bandwidth = copy_bandwidth()
    return {"value": bandwidth / (4 * GPT2_124M.matrix_parameters), "bytes_per_second": bandwidth}


def copy_bandwidth() -> float:
    """Bytes a second, read and written ones together, of a copy far larger than the caches."""
    import os

    source, target = np.ones(_COPY_BYTES, np.uint8), np.ones(_COPY_BYTES, np.uint8)
    threads = os.cpu_count() or 1
    edges = [_COPY_BYTES * i // threads for i in range(threads + 1)]
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(8):
            began = time.perf_counter()
            list(
                pool.map(
                    lambda i: np.copyto(
                        target[edges[i] : edges[i + 1]], source[edges[i] : edges[i + 1]]
                    ),
                    range(threads),
                )
            )
            best = min(best, time.perf_counter() - began)
    return 2 * _COPY_BYTES / best
