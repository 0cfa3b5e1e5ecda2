"""The cases, in the order of the report."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """A function of this package ("module:function") and its arguments."""

    place: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One case of the benchmark.

    Attributes:
      name: its name in the report.
      unit: the unit of the values.
      ours: the measurement of minigpt.
      peers: the measurements of the programs it is compared with, by name.
      target: the least ratio to the best peer; None if there is none.
      prepare: run once before the measurements; not measured.
      less_is_better: whether smaller values are better.
      rounds: number of measurements of each side.
      reaches: the unit of the score that the peer sets and minigpt has to reach; "" if there is none.
      packages: what the peers import.
      needs: the name of a text that has to be given; "" if the case needs none.
    """

    name: str
    unit: str
    ours: Measurement
    peers: Mapping[str, Measurement]
    target: float | None = None
    prepare: tuple[Measurement, ...] = ()
    less_is_better: bool = False
    rounds: int = 3
    reaches: str = ""
    packages: tuple[str, ...] = ()
    needs: str = ""

    def without_peers(self) -> "Case":
        """Returns the case with the measurements of minigpt alone."""
        prepare = tuple(what for what in self.prepare if what.place.startswith("ours:"))
        return replace(self, peers={}, prepare=prepare)


def build_cases(quick: bool, texts: Mapping[str, str]) -> list[Case]:
    """Returns all cases.

    Args:
      quick: makes each as short as possible, to show that it runs; the figures are not meaningful.
      texts: the paths of texts, by the name that `Case.needs` has.
    """
    return [
        *_quality(quick, texts),
        *_own_text(quick, texts),
        *_training(quick),
        *_sampling(quick),
        *_engine(quick),
    ]


def _quality(quick: bool, texts: Mapping[str, str]) -> list[Case]:
    shakespeare = {"text": "shakespeare", "path": texts.get("shakespeare")}
    words = {"text": "words", "path": texts.get("imdb")}
    return [
        Case(
            "quality-characters",
            "s",
            Measurement("quality:ours", shakespeare),
            {"nanoGPT": Measurement("nanogpt:quality", {"steps": 50 if quick else 2000})},
            8,
            (Measurement("quality:prepare", shakespeare),),
            less_is_better=True,
            reaches="bits/byte",
            packages=("torch",),
            needs="shakespeare",
        ),
        Case(
            "quality-words",
            "s",
            Measurement("quality:ours", words),
            {"tutorial": Measurement("tutorial:quality", {"seconds": 30 if quick else 259})},
            prepare=(Measurement("quality:prepare", words),),
            less_is_better=True,
            rounds=1,
            reaches="nats/word",
            needs="imdb",
        ),
    ]


def _own_text(quick: bool, texts: Mapping[str, str]) -> list[Case]:
    text = {"path": texts.get("text"), "minutes": 0.2 if quick else 3}
    return [
        Case(
            "own-text",
            "bits/byte",
            Measurement("own_text:trained", {**text, "base": "auto"}),
            {"from nothing": Measurement("own_text:trained", {**text, "base": "none"})},
            0.99,
            less_is_better=True,
            rounds=1,
            needs="text",
        ),
        Case(
            "own-samples",
            "of 40",
            Measurement("own_text:own_samples", {**text, "base_texts": texts.get("base_texts")}),
            {},
            rounds=1,
            needs="base_texts",
        ),
    ]


def _training(quick: bool) -> list[Case]:
    steady = {"steps": 2 if quick else 4, "seconds": 1 if quick else 8}
    start = {"steps": 3 if quick else 20}
    words, default = {"system": "words", **steady}, {"system": "default", **steady}
    return [
        Case(
            "train-words",
            "tokens/s",
            Measurement("ours:speed", words),
            {
                "tutorial": Measurement("tutorial:speed", {"jit": False, **steady}),
                "tutorial, XLA": Measurement("tutorial:speed", {"jit": True, **steady}),
            },
            2,
            (Measurement("ours:prepare", {"system": "words"}),),
        ),
        Case(
            "train-default",
            "tokens/s",
            Measurement("ours:speed", default),
            {
                "PyTorch": Measurement("torch_gpt2:speed", {"compiled": False, **steady}),
                "PyTorch, compiled": Measurement("torch_gpt2:speed", {"compiled": True, **steady}),
            },
            1.5,
            (Measurement("ours:prepare", {"system": "default"}),),
            packages=("torch", "transformers"),
        ),
        Case(
            "start",
            "s",
            Measurement("ours:start", start),
            {
                "tutorial": Measurement("tutorial:start", {"jit": False, **start}),
                "tutorial, XLA": Measurement("tutorial:start", {"jit": True, **start}),
            },
            1.25,
            (
                Measurement("ours:prepare", {"system": "default"}),
                Measurement("tutorial:write_stories"),
            ),
            less_is_better=True,
        ),
    ]


def _sampling(quick: bool) -> list[Case]:
    length = {"new_tokens": 20 if quick else 200, "calls": 1 if quick else 3}
    export = {"new_tokens": 40, "calls": 3 if quick else 30}
    return [
        *(
            Case(
                name,
                "tokens/s",
                Measurement("ours:generation", {"rows": rows, **length}),
                {"transformers": Measurement("torch_gpt2:generation", {"rows": rows, **length})},
                target,
                (Measurement("ours:prepare_run", {"model": "small"}),),
                packages=("torch", "transformers"),
            )
            for name, rows, target in (("sample-one", 1, 8), ("sample-eight", 8, 6))
        ),
        Case(
            "export-call",
            "s",
            Measurement("ours:exported", export),
            {"in process": Measurement("ours:in_process", export)},
            0.9,
            (
                Measurement("ours:prepare_run", {"model": "default"}),
                Measurement("ours:prepare_export"),
            ),
            less_is_better=True,
        ),
    ]


def _engine(quick: bool) -> list[Case]:
    """The engine: the first word of `minigpt sample`, the speed of one text, the server."""
    cases = [
        Case(
            "first-word",
            "s",
            Measurement("ours:first_word"),
            {"nanoGPT": Measurement("nanogpt:first_word")},
            4,
            (
                Measurement("ours:prepare_first_word"),
                Measurement("nanogpt:prepare_first_word"),
                # Files are then in the memory of the system, and the engine's machine code is in its cache.
                Measurement("ours:first_word"),
                Measurement("nanogpt:first_word"),
            ),
            less_is_better=True,
            rounds=5,
            packages=("torch",),
        )
    ]
    for model, new_tokens, calls in (("2m", 200, 40), ("20m", 200, 8), ("124m", 128, 2)):
        for weights in ("float32", "int8"):
            file = {"model": model, "weights": weights}
            length = (8, 1) if quick else (new_tokens, calls)
            asked = {**file, "new_tokens": length[0], "calls": length[1]}
            cases.append(
                Case(
                    f"engine-{model}" if weights == "float32" else f"engine-{model}-{weights}",
                    "tokens/s",
                    Measurement("ours:engine", asked),
                    {"llama.cpp": Measurement("llama_cpp:generation", asked)},
                    0.8,
                    (Measurement("ours:prepare_engine", file),),
                    packages=("xllamacpp",),
                )
            )
    seconds = {"seconds": 3 if quick else 20}
    serve = Case(
        "serve",
        "tokens/s",
        Measurement("serving:over_http", seconds),
        {"llama.cpp": Measurement("serving:llama_cpp", seconds)},
        prepare=(Measurement("ours:prepare_first_word"),),
        packages=("xllamacpp",),
    )
    return [*cases, serve]
