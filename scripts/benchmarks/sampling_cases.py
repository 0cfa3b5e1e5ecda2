"""The cases of sampling: a GPT, the callback, the exported model."""

from benchmarks.case import TOKENS, Case, Outcomes, same_arguments
from benchmarks.report import Target
from benchmarks.rounds import Measurement

# On a CPU, Keras does not compile with XLA by default.
_NOT_DEFAULT = "keras-hub with jit_compile=True, which is not its default"


def sampling(quick: bool) -> list[Case]:
    """Tokens per second of generation, after the first call."""
    calls = 1 if quick else 3

    def case(
        name: str, model: str, rows: int, new_tokens: int, target: Target, limit: Measurement
    ) -> Case:
        asked = {"model": model, "rows": rows, "new_tokens": new_tokens, "calls": calls}
        return Case(
            name,
            TOKENS,
            target,
            Measurement("our_sampling:generation", asked),
            {
                "transformers": Measurement("torch_gpt2:generation", asked),
                "keras-hub": Measurement("keras_hub_gpt:generation", {**asked, "jit": "auto"}),
            },
            others={_NOT_DEFAULT: Measurement("keras_hub_gpt:generation", {**asked, "jit": True})},
            prepare=(Measurement("our_sampling:prepare", {"model": model}),),
            limit=limit,
            notes=("the first call, which includes compilation, is not counted",),
            rounds=3 if model == "124m" else 5,
            budget_seconds=220,
        )

    def products(rows: int) -> Measurement:
        return Measurement("limits:decoding", {"rows": rows, "new_tokens": 200})

    few = 20 if quick else 200
    return [
        case("sample-one", "small", 1, few, Target(8), products(1)),
        case("sample-eight", "small", 8, few, Target(6), products(8)),
        case(
            "sample-124m",
            "124m",
            1,
            8 if quick else 64,
            Target(1.5, share_of_limit=0.6),
            Measurement("limits:weights_read"),
        ),
    ]


def callback(quick: bool) -> Case:
    """Seconds of the sample after an epoch."""
    return same_arguments(
        "sample-callback",
        "s",
        Target(100),
        "our_sampling:callback",
        {"tutorial": "tutorial:callback"},
        {"new_tokens": 40, "epochs": 2 if quick else 4},
        more_is_better=False,
        prepare=(Measurement("our_sampling:prepare", {"model": "words"}),),
        notes=("the first epoch's sample, which includes compilation, is not counted",),
        rounds=3,
        budget_seconds=150,
    )


def _same_text(outcomes: Outcomes) -> dict[str, bool]:
    texts = {of["text"] for name in outcomes for of in outcomes[name] if "text" in of}
    return {"the same text": len(texts) == 1}


def export(quick: bool) -> Case:
    """Seconds of a call of the exported model."""
    return same_arguments(
        "export-call",
        "s",
        Target(0.9, words="same text"),
        "our_sampling:exported",
        {"in process": "our_sampling:in_process"},
        {"new_tokens": 40, "calls": 3 if quick else 30},
        more_is_better=False,
        prepare=(
            Measurement("our_sampling:prepare", {"model": "default"}),
            Measurement("our_sampling:export"),
        ),
        checks=_same_text,
        notes=("the first call, which includes set-up, is not counted",),
        budget_seconds=150,
    )
