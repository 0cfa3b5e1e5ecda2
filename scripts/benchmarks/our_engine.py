"""Measures the engine: `minigpt.load_portable(file).samples`, and TensorFlow with the same model."""

import itertools
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measuring import Context, Outcome
from benchmarks.our_sampling import model_settings
from benchmarks.sizes import ENGINE_2M, ENGINE_20M, GPT2_124M

if TYPE_CHECKING:
    from minigpt.targets.targets import WeightsType

SIZES = {"2m": ENGINE_2M, "20m": ENGINE_20M, "124m": GPT2_124M}
# One token. Its computation is in our time, but not in that of llama.cpp.
PROMPT = "A"


def run_folder(context: Context, model: str) -> Path:
    return context.work / f"run-engine-{model}"


def portable_file(context: Context, model: str, weights: str) -> Path:
    return context.work / f"engine-{model}.{weights}.gguf"


def prepare(context: Context, model: str, weights: "WeightsType") -> Outcome:
    """Creates a run with an untrained model, and its portable file."""
    import minigpt
    from minigpt.config import Config
    from minigpt.models import build_gpt
    from minigpt.runs.run import Run

    sizes, path = SIZES[model], run_folder(context, model)
    if not path.exists():
        settings = {**model_settings(sizes), "tokenizer": {"kind": "character"}}
        config, tokenizer = Config.model_validate(settings), _tokenizer(sizes.vocab_size)
        gpt = build_gpt(config.model, sizes.vocab_size)
        Run.create(path, config, tokenizer, None, gpt)
    file = portable_file(context, model, weights)
    if not file.exists():
        minigpt.export_run(path, "gguf", file, weights=weights)
    return {"value": file.stat().st_size}


def _tokenizer(vocab_size: int) -> Any:
    """Returns a tokenizer of characters that llama.cpp has too: ASCII, Chinese, Korean, no NUL."""
    from minigpt.tokenizers.character import CharacterTokenizer

    ascii_characters = [chr(code) for code in range(1, 128)]
    ranges = range(0x3400, 0xA000), range(0xAC00, 0xD7A4), range(0x20000, 0x2A6E0)
    others = [chr(code) for code in itertools.chain(*ranges)]
    special = CharacterTokenizer(ascii_characters, b"", False).vocab_size - len(ascii_characters)
    characters = [*ascii_characters, *others][: vocab_size - special]
    return CharacterTokenizer(characters, b"", lowercase=False)


def engine(context: Context, model: str, weights: str, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second of the engine, which has one thread."""
    import minigpt

    return _speed(minigpt.load_portable(portable_file(context, model, weights)), new_tokens, calls)


def tensorflow(context: Context, model: str, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second of `minigpt.load(run)`, on all cores."""
    import minigpt

    return _speed(minigpt.load(run_folder(context, model)), new_tokens, calls)


def _speed(opened: Any, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second of greedy continuations, without the first call."""
    taken = []
    # Without the ban, a text might end early.
    settings = {"temperature": 0.0, "banned_tokens": [opened.tokenizer.end_id]}
    for _ in range(1 + calls):
        began = time.perf_counter()
        (sample,) = opened.samples(PROMPT, new_tokens, **settings)
        taken.append(time.perf_counter() - began)
        if len(sample.tokens) != new_tokens:
            raise ValueError("a text ended early")
    return {"value": new_tokens / statistics.median(taken[1:]), "first": taken[0]}
