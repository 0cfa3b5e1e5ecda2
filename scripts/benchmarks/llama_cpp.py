"""Measures the speed of llama.cpp, through its Python binding `xllamacpp`."""

import statistics
from typing import Any

from benchmarks.measuring import ENGINE, Outcome
from benchmarks.ours import ENGINE_PROMPT, portable_file


def server(path: str, threads: int, context: int, texts: int = 1) -> Any:
    """Returns llama.cpp's server for a number of texts at a time; an empty run precedes the first one."""
    import xllamacpp

    wanted = xllamacpp.CommonParams()
    wanted.model.path = path
    wanted.n_ctx = context * texts
    wanted.n_parallel = texts
    wanted.warmup = True
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = threads
    return xllamacpp.Server(wanted)


def generation(model: str, weights: str, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second on one thread, as llama.cpp counts them, without the first call."""
    opened = server(str(portable_file(model, weights)), 1, ENGINE[model].context)
    speeds = []
    for _ in range(1 + calls):
        answer = opened.handle_completions(
            {
                "prompt": ENGINE_PROMPT,
                "n_predict": new_tokens,
                "temperature": 0,
                "top_k": 1,
                "ignore_eos": True,
                "cache_prompt": False,
            }
        )
        timings = answer["timings"]
        if (timings["prompt_n"], timings["predicted_n"]) != (len(ENGINE_PROMPT), new_tokens):
            raise ValueError(f"{timings}: other numbers of tokens")
        speeds.append(timings["predicted_per_second"])
    return {"value": statistics.median(speeds[1:])}
