"""The cases of training: its speed, its start."""

from benchmarks.case import TOKENS, Case, Outcomes
from benchmarks.report import Target, median
from benchmarks.rounds import Measurement

_STEADY = "steps 1 and 2, which include compilation, are not counted"


def training(quick: bool) -> list[Case]:
    """Speed and memory of training, for five models."""
    steps = {"steps": 2 if quick else 4, "seconds": 1 if quick else 8}
    words = {**steps, "steps": 2 if quick else 3}

    def ours(system: str, length: dict[str, int]) -> Measurement:
        return Measurement("our_training:speed", {"system": system, **length})

    def torch(system: str, compiled: bool) -> Measurement:
        arguments = {"system": system, "compiled": compiled, **steps}
        return Measurement("torch_gpt2:speed", arguments)

    def prepared(system: str) -> Measurement:
        return Measurement("our_training:prepare", {"system": system})

    def limit(system: str) -> Measurement:
        return Measurement("limits:training", {"system": system})

    twenty = {"steps": 2 if quick else 20}
    return [
        Case(
            "train-words",
            TOKENS,
            Target(2, 0.4, words="equal loss"),
            ours("words", words),
            {
                "tutorial": Measurement("tutorial:speed", {"jit": False, **words}),
                "tutorial, XLA": Measurement("tutorial:speed", {"jit": True, **words}),
            },
            prepare=(prepared("words"),),
            once={
                "our loss": Measurement("our_training:losses", twenty),
                "the tutorial's loss": Measurement("tutorial:losses", twenty),
            },
            limit=limit("words"),
            checks=_losses_agree,
            notes=(_STEADY,),
            rounds=3,
            budget_seconds=360,
        ),
        Case(
            "train-characters",
            TOKENS,
            Target(1.5),
            ours("characters", steps),
            {
                "PyTorch": torch("characters", False),
                "PyTorch, compiled": torch("characters", True),
            },
            prepare=(prepared("characters"),),
            limit=limit("characters"),
            notes=(_STEADY,),
            budget_seconds=300,
        ),
        Case(
            "train-default",
            TOKENS,
            Target(1.5),
            ours("default", steps),
            {
                "keras-hub": Measurement(
                    "keras_hub_gpt:speed", {"system": "default", "jit": False, **steps}
                ),
                "keras-hub, XLA": Measurement(
                    "keras_hub_gpt:speed", {"system": "default", "jit": True, **steps}
                ),
                "PyTorch": torch("default", False),
                "PyTorch, compiled": torch("default", True),
            },
            prepare=(prepared("default"),),
            limit=limit("default"),
            notes=(_STEADY, "the peers use AdamW, minigpt uses its default, Muon"),
            rounds=3,
            budget_seconds=360,
        ),
        Case(
            "train-modern",
            TOKENS,
            Target(1.0, 1.5),
            ours("modern", steps),
            {
                "PyTorch": Measurement("torch_qwen3:speed", {"compiled": False, **steps}),
                "PyTorch, compiled": Measurement("torch_qwen3:speed", {"compiled": True, **steps}),
            },
            prepare=(prepared("modern"),),
            limit=limit("modern"),
            notes=(_STEADY, "the peers use AdamW, minigpt uses its default, Muon"),
            rounds=3,
            budget_seconds=360,
        ),
        Case(
            "train-124m",
            TOKENS,
            Target(1.2, 0.8),
            ours("124m", steps),
            {"PyTorch": torch("124m", False), "PyTorch, compiled": torch("124m", True)},
            prepare=(prepared("124m"),),
            limit=limit("124m"),
            notes=(_STEADY,),
            rounds=3,
            budget_seconds=400,
        ),
    ]


def _losses_agree(outcomes: Outcomes) -> dict[str, bool]:
    ours, peer = median(outcomes["our loss"]), median(outcomes["the tutorial's loss"])
    agree = ours is not None and peer is not None and abs(ours - peer) <= 1e-3
    shown = f"{ours} and {peer}" if ours and peer else "not measured"
    return {f"losses after the same steps equal to 1e-3 ({shown})": agree}


def start(quick: bool) -> Case:
    """Seconds from the start of the process to the first updates."""
    steps = {"steps": 3 if quick else 20}
    return Case(
        "start",
        "s",
        Target(1.25),
        Measurement("our_training:start", steps),
        {
            "tutorial": Measurement("tutorial:start", {"jit": False, **steps}),
            "tutorial, XLA": Measurement("tutorial:start", {"jit": True, **steps}),
        },
        more_is_better=False,
        prepare=(
            Measurement("our_training:prepare", {"system": "default"}),
            Measurement("tutorial:write_stories"),
        ),
        notes=("the tutorial reads the same text and builds its vocabulary at every start",),
        budget_seconds=240,
    )
