"""Measures the roofline of the machine: the matrix products of a step alone, and a large copy."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.measuring import Context, Outcome
from benchmarks.our_training import SIZES
from benchmarks.sizes import GPT2_124M, SMALL, Sizes

# Number of such products, batch size of each, and the sizes m, k, n of [m, k] x [k, n].
Product = tuple[int, int, int, int, int]
_SECONDS = 0.15
_COPY_BYTES = 1 << 29


def forward_products(sizes: Sizes) -> list[Product]:
    """Returns all matrix products of a forward pass over a batch."""
    tokens, heads = sizes.tokens_per_step, sizes.num_heads * sizes.head_dim
    layers, rows = sizes.num_layers, sizes.batch_size * sizes.num_heads
    return [
        (layers, 1, tokens, sizes.embed_dim, 3 * heads),
        (layers, rows, sizes.length, sizes.head_dim, sizes.length),
        (layers, rows, sizes.length, sizes.length, sizes.head_dim),
        (layers, 1, tokens, heads, sizes.embed_dim),
        ((2 if sizes.gated else 1) * layers, 1, tokens, sizes.embed_dim, sizes.ff_dim),
        (layers, 1, tokens, sizes.ff_dim, sizes.embed_dim),
        (1, 1, tokens, sizes.embed_dim, sizes.vocab_size),
    ]


def decoding_products(sizes: Sizes, seen: int) -> list[Product]:
    """Returns all matrix products for one new token per row, with `seen` tokens in the cache."""
    step = forward_products(replace(sizes, length=1))
    rows = sizes.batch_size * sizes.num_heads
    scores = (sizes.num_layers, rows, 1, sizes.head_dim, seen)
    mixed = (sizes.num_layers, rows, 1, seen, sizes.head_dim)
    return [step[0], scores, mixed, *step[3:]]


def backward_products(products: list[Product]) -> Iterator[Product]:
    """Yields the two products of the gradients of each product."""
    for count, side, m, k, n in products:
        yield count, side, m, n, k
        yield count, side, k, m, n


def seconds_of(products: list[Product]) -> float:
    """Returns the seconds of all products, each by the faster of torch and NumPy, into existing buffers."""
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
    """Returns the seconds of the fastest of at least two calls within _SECONDS."""
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
    """Returns the tokens per second of training that consists of matrix products only."""
    sizes = SIZES[system]
    forward = forward_products(sizes)
    seconds = seconds_of([*forward, *backward_products(forward)])
    return {"value": sizes.tokens_per_step / seconds}


def decoding(context: Context, rows: int, new_tokens: int) -> Outcome:
    """Returns the tokens per second of decoding that consists of matrix products only."""
    sizes = replace(SMALL, batch_size=rows)
    return {"value": rows / seconds_of(decoding_products(sizes, new_tokens // 2))}


def weights_read(context: Context) -> Outcome:
    """Returns the tokens per second if each token reads every weight of GPT-2 once, at copy bandwidth."""
    bandwidth = copy_bandwidth()
    return {"value": bandwidth / (4 * GPT2_124M.matrix_parameters), "bytes_per_second": bandwidth}


def copy_bandwidth() -> float:
    """Returns the bandwidth of a copy far larger than the caches: bytes read plus written per second."""
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
