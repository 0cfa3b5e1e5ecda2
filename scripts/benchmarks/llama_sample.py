"""Continues a prompt with llama.cpp, in Python: `python -m benchmarks.llama_sample FILE PROMPT`."""

import os
import sys
from typing import Any

import xllamacpp

NEW_TOKENS = 40


def main() -> None:
    path, prompt = sys.argv[1:]
    server = xllamacpp.Server(parameters(path, os.cpu_count() or 1))
    print(prompt, end="", flush=True)
    server.handle_completions(
        {"prompt": prompt, "n_predict": NEW_TOKENS, "top_k": 10, "seed": 1, "stream": True},
        lambda part: print(part["choices"][0]["text"], end="", flush=True),
    )


def parameters(path: str, threads: int, context: int = 256, warmup: bool = False) -> Any:
    """Returns the parameters of a server for one text at a time; it opens no port.

    Args:
      path: the model's file.
      threads: number of threads.
      context: maximum number of tokens.
      warmup: whether an empty run precedes the first text.
    """
    wanted = xllamacpp.CommonParams()
    wanted.model.path = path
    wanted.n_ctx = context
    wanted.n_parallel = 1
    wanted.warmup = warmup
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = threads
    return wanted


if __name__ == "__main__":
    main()
