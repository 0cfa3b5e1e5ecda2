"""Every case: who takes part, for how long, and what is to be reached."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.measuring import Outcome
from benchmarks.report import Mark, median
from benchmarks.rounds import Party

Outcomes = Mapping[str, Sequence[Outcome]]


@dataclass(frozen=True)
class Case:
    """Something that is measured.

    Attributes:
      name: as in the report.
      unit: of the values.
      mark: what is to be reached.
      ours: the measurement of minigpt.
      peers: those of what people use today, by name.
      prepare: done once before all others, and not measured.
      others: measured in the rounds too, for `checks` and to be told of; no ratio is to them.
      once: measured once, for `checks`.
      limit: what the machine could do, in the same unit.
      checks: what has to hold beside the mark, from all outcomes by name ("ours" is one).
      notes: what a reader of the figures should know.
      rounds: 5 of what is short, 3 of what is long.
      budget_seconds: that all rounds may take; no round begins that would end later.
    """

    name: str
    unit: str
    mark: Mark
    ours: Party
    peers: Mapping[str, Party]
    more_is_better: bool = True
    prepare: tuple[Party, ...] = ()
    others: Mapping[str, Party] = field(default_factory=dict)
    once: Mapping[str, Party] = field(default_factory=dict)
    limit: Party | None = None
    checks: Callable[[Outcomes], dict[str, bool]] = lambda outcomes: {}
    notes: tuple[str, ...] = ()
    rounds: int = 5
    budget_seconds: float = 300

    def parties(self) -> list[Party]:
        """All that is measured or prepared."""
        named = (*self.peers.values(), *self.others.values(), *self.once.values())
        return [self.ours, *named, *self.prepare, *([self.limit] if self.limit else [])]


TOKENS = "tokens/s"
# On a CPU, Keras compiles with XLA only who asks for it.
_NOT_DEFAULT = "keras-hub with jit_compile=True, not its default here"
_STEADY = "steps 1 and 2, in which things compile, do not count"


def build_cases(quick: bool, shakespeare: str | None = None) -> list[Case]:
    """All cases, in the order of the report.

    Args:
      quick: everything as short as it can be: shows that all runs, its figures mean little.
      shakespeare: path of tiny Shakespeare; None for the product's download.
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

    def ours(system: str, length: dict[str, int]) -> Party:
        return Party("our_training:speed", {"system": system, **length})

    def torch(system: str, compiled: bool) -> Party:
        arguments = {"system": system, "compiled": compiled, **steps}
        return Party("torch_gpt2:speed", arguments)

    def prepared(system: str) -> Party:
        return Party("our_training:prepare", {"system": system})

    def limit(system: str) -> Party:
        return Party("limits:training", {"system": system})

    twenty = {"steps": 2 if quick else 20}
    return [
        Case(
            "train-words",
            TOKENS,
            Mark(2, 0.4, words="equal loss"),
            ours("words", words),
            {
                "tutorial": Party("tutorial:speed", {"jit": False, **words}),
                "tutorial, XLA": Party("tutorial:speed", {"jit": True, **words}),
            },
            prepare=(prepared("words"),),
            once={
                "our loss": Party("our_training:losses", twenty),
                "the tutorial's loss": Party("tutorial:losses", twenty),
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
            Mark(1.5),
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
            Mark(1.5),
            ours("default", steps),
            {
                "keras-hub": Party(
                    "keras_hub_gpt:speed", {"system": "default", "jit": False, **steps}
                ),
                "keras-hub, XLA": Party(
                    "keras_hub_gpt:speed", {"system": "default", "jit": True, **steps}
                ),
                "PyTorch": torch("default", False),
                "PyTorch, compiled": torch("default", True),
            },
            prepare=(prepared("default"),),
            limit=limit("default"),
            notes=(_STEADY, "the peers' optimizer is AdamW, ours the default's"),
            rounds=3,
            budget_seconds=360,
        ),
        Case(
            "train-124m",
            TOKENS,
            Mark(1.2, 0.8),
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
        Mark(3),
        Party("quality:ours", arguments),
        {"nanoGPT": Party("nanogpt:quality", arguments)},
        more_is_better=False,
        prepare=(Party("quality:prepare", {"shakespeare": shakespeare}),),
        notes=(
            "from process start, reading and encoding the text included, evaluation not",
            "looked at after every 25 updates",
        ),
        rounds=3,
        budget_seconds=620,
    )


def _sampling(quick: bool) -> list[Case]:
    calls = 1 if quick else 3

    def case(name: str, model: str, rows: int, new_tokens: int, mark: Mark, limit: Party) -> Case:
        asked = {"model": model, "rows": rows, "new_tokens": new_tokens, "calls": calls}
        return Case(
            name,
            TOKENS,
            mark,
            Party("our_sampling:generation", asked),
            {
                "transformers": Party("torch_gpt2:generation", asked),
                "keras-hub": Party("keras_hub_gpt:generation", {**asked, "jit": "auto"}),
            },
            others={_NOT_DEFAULT: Party("keras_hub_gpt:generation", {**asked, "jit": True})},
            prepare=(Party("our_sampling:prepare", {"model": model}),),
            limit=limit,
            notes=("the first call, in which things compile, does not count",),
            rounds=3 if model == "124m" else 5,
            budget_seconds=220,
        )

    def products(rows: int) -> Party:
        return Party("limits:decoding", {"rows": rows, "new_tokens": 200})

    few = 20 if quick else 200
    return [
        case("sample-one", "small", 1, few, Mark(8), products(1)),
        case("sample-eight", "small", 8, few, Mark(6), products(8)),
        case(
            "sample-124m",
            "124m",
            1,
            8 if quick else 64,
            Mark(1.5, share_of_limit=0.6),
            Party("limits:weights_read"),
        ),
    ]


def _callback(quick: bool) -> Case:
    asked = {"new_tokens": 40, "epochs": 2 if quick else 4}
    return Case(
        "sample-callback",
        "s",
        Mark(100),
        Party("our_sampling:callback", asked),
        {"tutorial": Party("tutorial:callback", asked)},
        more_is_better=False,
        prepare=(Party("our_sampling:prepare", {"model": "words"}),),
        notes=("the first epoch's sample, in which things compile, does not count",),
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
        Mark(0.9, words="same text"),
        Party("our_sampling:exported", asked),
        {"in process": Party("our_sampling:in_process", asked)},
        more_is_better=False,
        prepare=(
            Party("our_sampling:prepare", {"model": "default"}),
            Party("our_sampling:export"),
        ),
        checks=_same_text,
        notes=("the first call, in which things are set up, does not count",),
        budget_seconds=150,
    )


def _start(quick: bool) -> Case:
    steps = {"steps": 3 if quick else 20}
    return Case(
        "start",
        "s",
        Mark(1.25),
        Party("our_training:start", steps),
        {
            "tutorial": Party("tutorial:start", {"jit": False, **steps}),
            "tutorial, XLA": Party("tutorial:start", {"jit": True, **steps}),
        },
        more_is_better=False,
        prepare=(
            Party("our_training:prepare", {"system": "default"}),
            Party("tutorial:write_stories"),
        ),
        notes=("the tutorial reads the same text and learns its vocabulary at every start",),
        budget_seconds=240,
    )


def _tokenize(quick: bool) -> Case:
    asked = {"megabytes": 5 if quick else 50}
    return Case(
        "tokenize",
        "MB/s",
        Mark(0.8),
        Party("our_corpus:tokenize", asked),
        {"tokenizers": Party("tokenizers_bpe:tokenize", asked)},
        prepare=(
            Party("our_corpus:prepare", asked),
            Party("tokenizers_bpe:prepare", asked),
        ),
        notes=("reading and writing included, learning the vocabulary not",),
        budget_seconds=180,
    )


# Bytes that 1 GB of text may take beyond what 10 MB take.
_MORE_MEMORY = 100e6


def _grow(quick: bool) -> Case:
    sizes = (1, 10, 50) if quick else (10, 100, 1000)
    length = {"steps": 4 if quick else 20, "seconds": 2 if quick else 10}

    def party(megabytes: int) -> Party:
        return Party("our_corpus:grow", {"megabytes": megabytes, **length})

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
        Mark(0.95, words="≤ 100 MB more"),
        party(sizes[2]),
        {small: party(sizes[0])},
        prepare=tuple(Party("our_corpus:text", {"megabytes": size}) for size in sizes),
        others={middle: party(sizes[1])},
        checks=checks,
        notes=(
            f"{large} of text beside {small}, the default configuration; memory is the most RssAnon, in "
            "the first round with the token store being made",
        ),
        rounds=3,
        budget_seconds=700,
    )


def _most(outcomes: Sequence[Outcome]) -> float | None:
    return max((of["memory"] for of in outcomes if "memory" in of), default=None)
