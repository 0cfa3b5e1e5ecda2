"""Measures the page of a model in Chromium: seconds to open, to the first token; tokens per second."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import first_word, our_engine
from benchmarks.measuring import Context, Outcome

PROMPT = "Once upon a time"
DEFAULT, LARGE = "default", "124m"
# What a browser does for itself: it looks for updates and for the addresses of its servers.
_OPTIONS = (
    "--no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


def prepare(context: Context, model: str, weights: str) -> Outcome:
    """Writes the page of a model, and what it is made of."""
    import minigpt

    file = _page(context, model, weights)
    if not file.exists():
        if model == DEFAULT:
            first_word.prepare(context)
            run = first_word.run_folder(context)
        else:
            our_engine.prepare(context, model, "int8")
            run = our_engine.run_folder(context, model)
        minigpt.export_run(run, "html", file, weights=weights)
    return {"value": file.stat().st_size}


def _page(context: Context, model: str, weights: str) -> Path:
    return context.work / f"page-{model}.{weights}.html"


def opened(context: Context, model: str, weights: str) -> Outcome:
    """Measures the seconds from the start of the navigation until the model is open."""
    if missing := _missing():
        return missing
    with _open(context, model, weights) as page:
        milliseconds = page.evaluate("performance.getEntriesByName('model-ready')[0].startTime")
        return {"value": milliseconds / 1000}


def first_token(context: Context, model: str, weights: str) -> Outcome:
    """Measures the seconds from a call of `generate` to its first text."""
    if missing := _missing():
        return missing
    with _open(context, model, weights) as page:
        seconds = page.evaluate(
            """async (prompt) => {
                const began = performance.now();
                let first = 0;
                const onText = () => { first ||= performance.now() - began; };
                await minigpt.generate({ prompt, maxNewTokens: 40, seed: 1, onText });
                return first / 1000;
            }""",
            PROMPT,
        )
        return {"value": seconds}


def speed(context: Context, model: str, weights: str, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second of the page, with the sampling settings of the run."""
    if missing := _missing():
        return missing
    with _open(context, model, weights) as page:
        tokens, milliseconds = page.evaluate(
            """async ([prompt, maxNewTokens, calls]) => {
                await minigpt.generate({ prompt, maxNewTokens });
                const began = performance.now();
                let count = 0;
                for (let seed = 0; seed < calls; seed++) {
                    count += (await minigpt.generate({ prompt, maxNewTokens, seed })).tokens.length;
                }
                return [count, performance.now() - began];
            }""",
            [PROMPT, new_tokens, calls],
        )
        return {"value": 1000 * tokens / milliseconds}


def engine(context: Context, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second of the engine in Python, with the same model and settings."""
    import minigpt

    run = minigpt.Run(first_word.run_folder(context))
    model: Any = minigpt.load_portable(run.portable_file)
    sampling = run.config.sampling
    settings = {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
    }
    model.samples(PROMPT, new_tokens, **settings)
    began, count = time.perf_counter(), 0
    for seed in range(calls):
        (sample,) = model.samples(PROMPT, new_tokens, seed=seed, **settings)
        count += len(sample.tokens)
    return {"value": count / (time.perf_counter() - began)}


@contextmanager
def _open(context: Context, model: str, weights: str) -> Iterator[Any]:
    """Yields the page when its model is open."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=_OPTIONS.split())
        page = browser.new_page()
        page.goto(_page(context, model, weights).absolute().as_uri())
        page.evaluate("minigpt.ready")
        yield page
        browser.close()


def _chromium() -> str | None:
    names = "chromium", "chromium-browser", "google-chrome"
    return next(filter(None, map(shutil.which, names)), None)


def _missing() -> Outcome | None:
    """Returns the outcome without a browser; None if there is one."""
    return None if _chromium() else {"skipped": "Chromium is not on PATH"}
