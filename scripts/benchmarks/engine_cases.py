"""The cases of the engine: the first word of `minigpt sample`, and the speed of one text."""

from benchmarks.case import TOKENS, Case, Outcomes
from benchmarks.report import Target, median
from benchmarks.rounds import Measurement

_FIRST_WORD_SECONDS = 1.0
# Model → new tokens, timed calls.
_LENGTHS = {"2m": (200, 40), "20m": (200, 8), "124m": (128, 2)}
# Model → seconds of all rounds with float32, which include TensorFlow, and with int8.
_BUDGETS = {"2m": (60, 20), "20m": (110, 50), "124m": (180, 80)}


def first_word(quick: bool) -> Case:
    """Seconds from the start of a command to the first word on its output."""

    def peer(program: str) -> Measurement:
        return Measurement("first_word:peer", {"program": program})

    ours = Measurement("first_word:ours")
    peers = {"nanoGPT": peer("nanogpt"), "transformers": peer("transformers")}
    others = {
        "llama.cpp in Python (xllamacpp)": peer("llama"),
        "llama.cpp's executable": Measurement("first_word:executable"),
    }

    def checks(outcomes: Outcomes) -> dict[str, bool]:
        value = median(outcomes["ours"])
        return {"at most 1 s": value is not None and value <= _FIRST_WORD_SECONDS}

    return Case(
        "first-word",
        "s",
        Target(4, words="≤ 1 s"),
        ours,
        peers,
        more_is_better=False,
        prepare=(
            Measurement("first_word:prepare"),
            Measurement("first_word:prepare_nanogpt"),
            # Files are then in the memory of the system, and the engine's machine code is in its cache.
            *(() if quick else (ours, *peers.values(), *others.values())),
        ),
        others=others,
        checks=checks,
        notes=(
            "the whole start: imports, opening the model, the prompt, the first token",
            "each side has run once before",
        ),
        all_rounds=True,
        budget_seconds=80,
    )


def engine(quick: bool) -> list[Case]:
    """Tokens per second of one text, greedy, for three models and two kinds of weights."""
    return [_engine(model, weights, quick) for model in _LENGTHS for weights in ("float32", "int8")]


def _engine(model: str, weights: str, quick: bool) -> Case:
    new_tokens, calls = (8, 1) if quick else _LENGTHS[model]
    length = {"new_tokens": new_tokens, "calls": calls}
    asked = {"model": model, "weights": weights, **length}
    others = {}
    if weights == "float32":
        # TensorFlow has no integers here.
        name = "minigpt on TensorFlow, all cores"
        others[name] = Measurement("our_engine:tensorflow", {"model": model, **length})
    return Case(
        f"engine-{model}" if weights == "float32" else f"engine-{model}-{weights}",
        TOKENS,
        Target(0.8),
        Measurement("our_engine:engine", asked),
        {"llama.cpp": Measurement("llama_cpp:generation", asked)},
        prepare=(Measurement("our_engine:prepare", {"model": model, "weights": weights}),),
        others=others,
        notes=("one thread; the first call is not counted",),
        rounds=3 if model == "124m" else 5,
        budget_seconds=_BUDGETS[model][weights != "float32"],
    )
