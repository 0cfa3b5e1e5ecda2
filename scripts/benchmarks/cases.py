"""All cases: what is measured, for how long, and the targets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.measuring import Outcome
from benchmarks.report import Target, median
from benchmarks.rounds import Measurement

Outcomes = Mapping[str, Sequence[Outcome]]


@dataclass(frozen=True)
class Case:
    """One case of the benchmark.

    Attributes:
      name: its name in the report.
      unit: the unit of the values.
      target: the targets.
      ours: the measurement of minigpt.
      peers: the measurements of the programs it is compared with, by name.
      prepare: run once before the measurements; not measured.
      others: measured in every round for `checks` and the notes; not used for ratios.
      once: measured once, for `checks`.
      limit: the roofline of the machine, in the same unit.
      checks: additional conditions, computed from all outcomes by name ("ours" among them).
      notes: remarks for the reader of the report.
      rounds: 5 for short measurements, 3 for long ones.
      budget_seconds: time for all rounds; a round that would end later is not started.
    """

    name: str
    unit: str
    target: Target
    ours: Measurement
    peers: Mapping[str, Measurement]
    more_is_better: bool = True
    prepare: tuple[Measurement, ...] = ()
    others: Mapping[str, Measurement] = field(default_factory=dict)
    once: Mapping[str, Measurement] = field(default_factory=dict)
    limit: Measurement | None = None
    checks: Callable[[Outcomes], dict[str, bool]] = lambda outcomes: {}
    notes: tuple[str, ...] = ()
    rounds: int = 5
    budget_seconds: float = 300

    def parties(self) -> list[Measurement]:
        """Returns all measurements and preparations of the case."""
        named = (*self.peers.values(), *self.others.values(), *self.once.values())
        return [self.ours, *named, *self.prepare, *([self.limit] if self.limit else [])]


TOKENS = "tokens/s"
# On a CPU, Keras does not compile with XLA by default.
_NOT_DEFAULT = "keras-hub with jit_compile=True, which is not its default"
_STEADY = "steps 1 and 2, which include compilation, are not counted"


def build_cases(quick: bool, shakespeare: str | None = None) -> list[Case]:
    """Returns all cases in the order of the report.

    Args:
      quick: makes every case as short as possible, to show that it runs; the figures are not meaningful.
      shakespeare: path of tiny Shakespeare; downloaded if None.
    """
    return [
        *_training(quick),
        _quality(quick, shakespeare),
        *_sampling(quick),
        _callback(quick),
        _export(quick),
        _start(quick),
        _tokenize(quick),
        _grow(quick),
    ]


def _training(quick: bool) -> list[Case]:
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


def _quality(quick: bool, shakespeare: str | None) -> Case:
    arguments = {"bits": 4.5 if quick else 2.75}
    return Case(
        "quality",
        "s",
        Target(3),
        Measurement("quality:ours", arguments),
        {"nanoGPT": Measurement("nanogpt:quality", arguments)},
        more_is_better=False,
        prepare=(Measurement("quality:prepare", {"shakespeare": shakespeare}),),
        notes=(
            "from the start of the process; includes reading and encoding the text, excludes evaluation",
            "evaluated after every 25 updates",
        ),
        rounds=3,
        budget_seconds=620,
    )


def _sampling(quick: bool) -> list[Case]:
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


def _callback(quick: bool) -> Case:
    asked = {"new_tokens": 40, "epochs": 2 if quick else 4}
    return Case(
        "sample-callback",
        "s",
        Target(100),
        Measurement("our_sampling:callback", asked),
        {"tutorial": Measurement("tutorial:callback", asked)},
        more_is_better=False,
        prepare=(Measurement("our_sampling:prepare", {"model": "words"}),),
        notes=("the first epoch's sample, which includes compilation, is not counted",),
        rounds=3,
        budget_seconds=150,
    )


def _same_text(outcomes: Outcomes) -> dict[str, bool]:
    texts = {of["text"] for name in outcomes for of in outcomes[name] if "text" in of}
    return {"the same text": len(texts) == 1}


def _export(quick: bool) -> Case:
    asked = {"new_tokens": 40, "calls": 3 if quick else 30}
    return Case(
        "export-call",
        "s",
        Target(0.9, words="same text"),
        Measurement("our_sampling:exported", asked),
        {"in process": Measurement("our_sampling:in_process", asked)},
        more_is_better=False,
        prepare=(
            Measurement("our_sampling:prepare", {"model": "default"}),
            Measurement("our_sampling:export"),
        ),
        checks=_same_text,
        notes=("the first call, which includes set-up, is not counted",),
        budget_seconds=150,
    )


def _start(quick: bool) -> Case:
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


def _tokenize(quick: bool) -> Case:
    asked = {"megabytes": 5 if quick else 50}
    return Case(
        "tokenize",
        "MB/s",
        Target(0.8),
        Measurement("our_corpus:tokenize", asked),
        {"tokenizers": Measurement("tokenizers_bpe:tokenize", asked)},
        prepare=(
            Measurement("our_corpus:prepare", asked),
            Measurement("tokenizers_bpe:prepare", asked),
        ),
        notes=("includes reading and writing, excludes learning the vocabulary",),
        budget_seconds=180,
    )


# Maximum difference in memory between training on 1 GB and on 10 MB of text, in bytes.
_MORE_MEMORY = 100e6


def _grow(quick: bool) -> Case:
    sizes = (1, 10, 50) if quick else (10, 100, 1000)
    length = {"steps": 4 if quick else 20, "seconds": 2 if quick else 10}

    def party(megabytes: int) -> Measurement:
        return Measurement("our_corpus:grow", {"megabytes": megabytes, **length})

    small, middle, large = (f"{size} MB" for size in sizes)

    def checks(outcomes: Outcomes) -> dict[str, bool]:
        found = {}
        for name in (middle, "ours"):
            more = (_most(outcomes[name]) or 0) - (_most(outcomes[small]) or 0)
            what = f"{large if name == 'ours' else name}: {more / 1e6:,.0f} MB more than {small}"
            found[f"{what}, at most 100"] = more <= _MORE_MEMORY
        speed, first = median(outcomes[middle]), median(outcomes[small])
        ratio = speed / first if speed and first else 0
        return found | {f"{middle}: {ratio:.3f} of the speed, at least 0.95": ratio >= 0.95}

    return Case(
        "grow",
        TOKENS,
        Target(0.95, words="≤ 100 MB more"),
        party(sizes[2]),
        {small: party(sizes[0])},
        prepare=tuple(Measurement("our_corpus:text", {"megabytes": size}) for size in sizes),
        others={middle: party(sizes[1])},
        checks=checks,
        notes=(
            f"{large} of text compared with {small}, default configuration; memory is the peak of "
            "RssAnon and includes, in the first round, the creation of the token store",
        ),
        rounds=3,
        budget_seconds=700,
    )


def _most(outcomes: Sequence[Outcome]) -> float | None:
    return max((of["memory"] for of in outcomes if "memory" in of), default=None)
