"""Measures the speed of llama.cpp, through its Python binding `xllamacpp`."""

import statistics

from benchmarks.llama_sample import parameters
from benchmarks.measuring import Context, Outcome
from benchmarks.our_engine import PROMPT, SIZES, portable_file


def generation(context: Context, model: str, weights: str, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second on one thread, as llama.cpp counts them, without the first call."""
    import xllamacpp

    path = str(portable_file(context, model, weights))
    server = xllamacpp.Server(parameters(path, 1, SIZES[model].context, warmup=True))
    speeds = []
    for _ in range(1 + calls):
        answer = server.handle_completions(
            {
                "prompt": PROMPT,
                "n_predict": new_tokens,
                "temperature": 0,
                "top_k": 1,
                "ignore_eos": True,
                "cache_prompt": False,
            }
        )
        timings = answer["timings"]
        if (timings["prompt_n"], timings["predicted_n"]) != (len(PROMPT), new_tokens):
            raise ValueError(f"{timings}: other numbers of tokens")
        speeds.append(timings["predicted_per_second"])
    return {"value": statistics.median(speeds[1:])}
