"""What is refused: one line for each problem, with the setting, option or file; nothing is written.

A new refusal is a row of one of the three tables. The words of a message are not tested, except what a
user copies from it: tests/cli/test_printed_commands.py.
"""

import shlex
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigpt
from minigpt.config import load_config
from tests.cli.running import refused

# Files that the commands name → their content.
FILES = {
    "empty.txt": b"",
    "binary.txt": b"\x7fELF\0\0\1\2" * 50,
    "latin1.txt": "Grüße\n".encode("latin-1") * 50,
    "short.txt": b"Hi.",
    "line.txt": b"Hi there.\n",
    "white.txt": b" \n\n " * 500,
    "book.txt": b"Ana sat on the hill. " * 200,
    "bad.tsv": b"a\tb\nno tab here\n",
    "begun.gguf": b"GGUF",
    "other.gguf": b"something else",
    "untitled.csv": b"story\n",
}
# A command, and what its lines name: one line for each. TINY, CHAT and PAIRS are committed runs.
COMMANDS: list[tuple[str, ...]] = [
    ("smaple x", "smaple"),
    ("train --text ''", "''"),
    ("train --text", "--text"),
    ("train --text missing.txt", "missing.txt"),
    ("train --text binary.txt", "binary.txt"),
    ("train --text empty.txt --text missing.txt", "empty.txt", "missing.txt"),
    ("train --text short.txt", "tokens"),
    ("train --text line.txt --plan", "10 bytes"),
    ("train --text book.txt --me Ana", "--me 'Ana'"),
    (f"train --text {'x' * 300}", "xxx"),
    ("train --text 'a\nb'", r"a\nb"),
    ("train --text nothing.txt --set data.weights=[-1]", "--set data.weights", "nothing.txt"),
    ("train --text book.txt --set data.weights=[1,2]", "data.weights"),
    ("train --text book.txt --text short.txt --set data.weights=[1,1]", "short.txt"),
    ("train --text book.txt --set data.val_paths=['no.txt']", "no.txt"),
    ("train --text book.txt --set training.init_from=nowhere", "init_from"),
    ("train --text book.txt --base other.gguf", "--base other.gguf: is not a portable file"),
    ("train --base TINY", "--text"),
    ("sweep --text book.txt --base nosuch --set training.seed=1,2 --output s", "--base nosuch"),
    ("train --text book.txt --set sampling.banned_tokens=[1000000]", "sampling.banned_tokens"),
    ("train --config dialogues --set sampling.banned_tokens=[1000000]", "sampling.banned_tokens"),
    ("train --text book.txt --set model.max_len=4096 --set training.batch_size=64", "tokens"),
    ("train --config translate_eng_deu --text bad.tsv --run run", "bad.tsv"),
    ("train --config nope", "--config nope"),
    ("train --set model.max_len=1", "--set model.max_len = 1"),
    (
        "train --set model.max_len=1 --set training.epochs=no",
        "--set model.max_len",
        "--set training.epochs",
    ),
    ("train --set training.learning_rate=inf", "training.learning_rate"),
    ("train --set data.paths=['x']", "data.paths"),
    ("train --set training.lora_rank=2", "training.lora_rank"),
    ("train --set epochs=1", "--set epochs=1"),
    ("train --run .", "--run ."),
    ("train --run short.txt", "--run short.txt"),
    (f"train --run {'x' * 300}", "xxx"),
    ("train --text no.txt --run . --set model.max_len=1", "model.max_len", "--run .", "no.txt"),
    ("train --resume nowhere", "--resume nowhere"),
    (
        "train --resume nowhere --config default --text x",
        "--config",
        "--text",
        "--resume nowhere: does not",
    ),
    ("train --resume TINY --plan", "--plan"),
    ("train --json", "--json"),
    ("train book.txt", "book.txt"),
    ("launch", "launch"),
    ("launch --workers 99999 -- train", "--workers"),
    ("launch -- train --plan", "--plan"),
    ("sample", "RUN"),
    ("sample nowhere", "RUN nowhere"),
    ("serve nowhere", "base"),
    ("sample .", "config.toml"),
    ("sample short.txt", "RUN short.txt"),
    ("sample nothing.gguf", "RUN nothing.gguf"),
    ("sample other.gguf", "other.gguf"),
    (f"sample {'x' * 300}", "xxx"),
    ("sample 'a\nb'", r"a\nb"),
    ("sample TINY --temperature ''", "--temperature ''"),
    ("sample TINY --temperature -0.5", "--temperature"),
    ("sample TINY --top-k -1", "--top-k"),
    ("sample TINY --top-p 2", "--top-p"),
    ("sample TINY --ban 100000", "--ban 100000"),
    ("sample TINY --seed 2147483647 --num-samples 2", "--seed 2147483647"),
    ("sample TINY --seed -1", "--seed -1"),
    ("sample TINY --beams 2", "--beams"),
    ("sample TINY --stream --json", "--stream"),
    ("sample TINY --prompt 'Ana \udcff'", "Ana"),
    ("sample TINY --regex a --grammar short.txt", "--grammar and --regex"),
    ("sample PAIRS --prompt a", "RUN PAIRS"),
    ("chat CHAT --beams 2", "--beams"),
    ("translate TINY --text a", "RUN TINY"),
    ("translate PAIRS --file none.txt", "--file none.txt"),
    ("translate PAIRS --file latin1.txt", "--file latin1.txt"),
    ("translate PAIRS --text a --beams 0", "--beams 0"),
    ("translate PAIRS --text a --length-penalty 2", "--length-penalty 2"),
    ("evaluate TINY/model.gguf", "RUN TINY/model.gguf"),
    ("evaluate TINY --text no.txt --text untitled.csv", "no.txt", "untitled.csv"),
    ("memorized TINY --tokens 0", "--tokens 0"),
    ("report TINY ''", "RUN... ''"),
    ("report TINY TINY", "--output"),
    ("report TINY --output short.txt", "--output short.txt"),
    ("export TINY --format tensorrt --output x", "--format tensorrt"),
    ("export TINY --output .", "--output ."),
    ("export TINY --output short.txt", "--output short.txt"),
    ("export TINY --format keras --weights int8 --output x", "--weights int8"),
    ("serve TINY --port 'a\nb'", r"--port a\nb"),
    ("import nowhere --run x", "FOLDER nowhere"),
]
# Settings, and what is named. All problems are reported together.
SETTINGS: list[tuple[Any, list[str], list[str]]] = [
    (
        {
            "model": {"max_len": 1, "num_heads": 0, "dropout": 0.1},
            "sampling": {"top_k": -1, "temperature": -1.0},
            "traning": {},
            "tokenizer": {"kind": "wrd"},
            "data": {"val_fraction": 1.5},
        },
        ["training.epochs=ten", "nonsense", "foo.bar=1"],
        [
            *("model.max_len = 1", "model.num_heads = 0", "model.dropout = 0.1"),
            *("sampling.top_k = -1", "sampling.temperature = -1.0", "[traning]"),
            *("tokenizer.kind = 'wrd'", "data.val_fraction = 1.5", "training.epochs = 'ten'"),
            *("overrides = 'nonsense'", "overrides = 'foo.bar=1'"),
        ],
    ),
    (
        {
            "data": {"source": "pairs", "document_separator": "x", "val_pairs": 0},
            "model": {"kind": "encoder_decoder", "block": "none"},
        },
        ["training.label_smoothing=1.5"],
        [
            *("data.paths = []", "data.document_separator = 'x'", "data.val_pairs = 0"),
            *("model.block = 'none'", "training.label_smoothing = 1.5"),
        ],
    ),
    ({"data": {"val_pairs": 3}}, [], ["data.val_pairs = 3"]),
    ({"data": {"source": "pairs", "paths": ["a"]}}, [], ["model.kind = 'gpt'"]),
    ({"model": {"kind": "encoder_decoder"}}, [], ["model.kind = 'encoder_decoder'"]),
    ({"sampling": {"prompts": ["Ana", "a\ud800"]}}, [], ["sampling.prompts"]),
    ({"data": 5}, [], ["data = 5"]),
    ({"format": "2"}, [], ["format = '2'"]),
    ({"format": 3, "tokenizer": {"kind": "unigram"}}, [], ["format = 3"]),
    ("missing", [], ["config = 'missing'"]),
    ("/dev/zero", [], ["config = '/dev/zero'"]),
    (None, ["model.num_heads=5"], ["model.num_heads = 5"]),
    (None, ["model.num_kv_heads=3"], ["model.num_kv_heads = 3"]),
    (None, ["model.head_dim=7"], ["model.position = 'rotary'"]),
    (None, ["model.block=pre_norm", "model.head_bias=true"], ["model.head_bias = True"]),
    (None, ["model.convolution=1"], ["model.convolution = 1"]),
    (None, ["model.ngrams=[2, 2]"], ["model.ngrams = [2, 2]"]),
    (None, ["training.learning_rate=1e-3", "training.min_learning_rate=1"], ["min_learning_rate"]),
    (None, ["training.devices=0"], ["training.devices = 0"]),
    (None, ["training.label_smoothing=0.1"], ["training.label_smoothing = 0.1"]),
    (None, ["training.loss_on=all"], ["training.loss_on = 'all'"]),
    (None, ["sampling.translations=3"], ["sampling.translations = 3"]),
    (None, ["sampling.beams=2"], ["sampling.beams = 2"]),
    *(
        ("vaswani_eng_deu", [setting], [setting.partition("=")[0]])
        for setting in (
            "sampling.temperature=0.5",
            "sampling.stop=['.']",
            "training.sequence_length=8",
        )
    ),
    # Wrong types are not guessed at.
    *(
        (None, [f"training.epochs={wrong}"], ["training.epochs"])
        for wrong in ("true", "1.0", "'3'", "none")
    ),
    # Counts have an upper limit.
    *(
        (None, [f"{setting}={2**63 - 1}"], [setting])
        for setting in (
            *("training.epochs", "training.steps_per_epoch", "training.batch_size"),
            *("training.warmup_steps", "tokenizer.vocab_size", "sampling.translations"),
        )
    ),
]


class Given:
    """Runs and their models, each loaded once."""

    def __init__(self, runs: Path) -> None:
        self.tiny, self.pairs = minigpt.Run(runs / "tiny"), minigpt.Run(runs / "pairs")

    @cached_property
    def texts(self) -> list[Any]:
        """The model of a text in TensorFlow, and in the engine."""
        return [minigpt.load(self.tiny), minigpt.load_portable(self.tiny.portable_file)]

    @cached_property
    def translations(self) -> list[Any]:
        return [minigpt.load(self.pairs), minigpt.load_portable(self.pairs.portable_file)]

    def continued(self, prompt: Any = "Ana", **settings: Any) -> list[Callable[[], Any]]:
        return [lambda model=m: model.generate(prompt, **settings) for m in self.texts]

    def translated(self, **settings: Any) -> list[Callable[[], Any]]:
        return [lambda model=m: model.translate("a b", **settings) for m in self.translations]


# What is named, and a call, or a list of calls. What is in backticks is a mistake in a
# program: a TypeError or ValueError. All others are UserErrors.
CALLS: list[tuple[str, Callable[[Given], Any]]] = [
    ("`run`", lambda g: minigpt.train(run=5)),
    ("`config`", lambda g: minigpt.train(5)),
    ("`resume_from`", lambda g: minigpt.train(resume_from=5)),
    ("`name`", lambda g: minigpt.train(name=5)),
    ("minutes = -1", lambda g: minigpt.train(minutes=-1)),
    ("minutes = 'ten'", lambda g: minigpt.plan(minutes="ten")),
    ("base = 'none.gguf'", lambda g: minigpt.train(text=__file__, base="none.gguf")),
    ("base = ''", lambda g: minigpt.plan(text=__file__, base="")),
    (
        "model.num_layers = 99: base = ",
        lambda g: minigpt.train(text=__file__, base=g.tiny.path, overrides=["model.num_layers=99"]),
    ),
    (
        "base = 'nowhere'",
        lambda g: minigpt.sweep(
            {"training.seed": [1]}, output="new", text=[__file__], base=Path("nowhere")
        ),
    ),
    ("resume_from = 'none'", lambda g: minigpt.train(resume_from="none")),
    ("`path`", lambda g: minigpt.load_portable(5)),
    ("`folder`", lambda g: minigpt.import_run(5, "new")),
    ("`run`", lambda g: minigpt.import_run("new", 5)),
    ("`folder`", lambda g: minigpt.list_runs(5)),
    ("`run`", lambda g: minigpt.write_report([5], "new")),
    ("`output`", lambda g: minigpt.write_report([], 5)),
    ("run = 'runs/none'", lambda g: minigpt.write_report("runs/none", "new")),
    ("`output`", lambda g: minigpt.export_run(g.tiny, "gguf", 5)),
    ("`path`", lambda g: minigpt.verify(5, g.tiny)),
    ("`text`", lambda g: load_config(text="book.txt")),
    ("`overrides`", lambda g: load_config(None, "training.epochs=1")),
    ("`overrides`", lambda g: load_config(None, [5])),
    ("`paths`", lambda g: minigpt.evaluate_run(g.tiny, 5)),
    ("`tokens`", lambda g: minigpt.measure_memorization(g.tiny, tokens=-1)),
    ("`text`", lambda g: [lambda m=m: m.unknown_tokens(5) for m in g.texts]),
    ("`prompt`", lambda g: [lambda m=m: m.stream(5) for m in g.texts]),
    ("`token_ids`", lambda g: [lambda m=m: m.logits([[0.5]]) for m in g.texts]),
    ("`prompts`", lambda g: g.continued(3)),
    ("`num_samples`", lambda g: g.continued(num_samples=1.5)),
    ("num_samples = 0", lambda g: g.continued(num_samples=0)),
    ("`seed`", lambda g: g.continued(seed=0.5)),
    ("seed = -1", lambda g: g.continued(seed=-1)),
    ("topk = 1", lambda g: g.continued(topk=1)),
    ("temperature = -1", lambda g: g.continued(temperature=-1)),
    ("temperature = nan", lambda g: g.continued(temperature=float("nan"))),
    ("temperature = 1000", lambda g: g.texts[1].generate("Ana", temperature=10**400)),
    ("top_k = 1.5", lambda g: g.continued(top_k=1.5)),
    ("top_k = 2147483648", lambda g: g.continued(top_k=2**31)),
    ("top_p = 0", lambda g: g.continued(top_p=0)),
    ("min_p = -0.1", lambda g: g.continued(min_p=-0.1)),
    ("repetition_penalty = 0", lambda g: g.continued(repetition_penalty=0)),
    ("stop = 'x'", lambda g: g.continued(stop="x")),
    ("banned_tokens", lambda g: g.continued(banned_tokens=[10**6])),
    ("max_new_tokens = -1", lambda g: g.continued(max_new_tokens=-1)),
    ("max_new_tokens = 10000000", lambda g: g.continued(max_new_tokens=10**7)),
    ("max_new_tokens = [[0.0", lambda g: g.continued(max_new_tokens=np.zeros((2, 2)))),
    ("beams = 2", lambda g: g.continued(beams=2)),
    ("texts = '\\ud800'", lambda g: g.texts[0].evaluate("\ud800")),
    ("beams = 1.5", lambda g: g.translated(beams=1.5)),
    ("beams = 1000", lambda g: g.translated(beams=10**30)),
    ("max_new_tokens = -1", lambda g: g.translated(max_new_tokens=-1)),
    ("length_penalty = nan", lambda g: g.translated(length_penalty=float("nan"))),
    ("text = '\\ud800'", lambda g: g.translations[0].unknown_tokens("\ud800")),
    ("`pairs`", lambda g: g.translations[0].evaluate([("a", "b", "c")])),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.fixture(scope="module")
def given(runs_folder: Path) -> Given:
    return Given(runs_folder)


def check(lines: list[str], things: list[str] | tuple[str, ...]) -> None:
    assert len(lines) == len(things), lines
    for thing in things:
        assert sum(thing in line for line in lines) == 1, (thing, lines)


@pytest.mark.parametrize(("command", "things"), [(row[0], row[1:]) for row in COMMANDS])
def test_commands(command, things, folder, runs_folder):
    runs = {"TINY": "tiny", "PAIRS": "pairs", "CHAT": "chat"}

    def with_runs(text: str) -> str:
        for name, run in runs.items():
            text = text.replace(name, str(runs_folder / run))
        return text

    before = sorted(folder.rglob("*"))
    lines = refused(*map(with_runs, shlex.split(command)), cwd=folder)
    check(lines, [with_runs(thing) for thing in things])
    assert all(line.startswith("minigpt: ") for line in lines)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(("source", "overrides", "things"), SETTINGS)
def test_settings(source, overrides, things):
    with pytest.raises(minigpt.UserError) as caught:
        load_config(source, overrides)
    check(list(caught.value.problems), things)
    assert "\n" not in "".join(caught.value.problems)


@pytest.mark.parametrize(("thing", "call"), CALLS, ids=[thing for thing, _ in CALLS])
def test_calls(thing, call, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Nothing is trained if an argument is not checked.
    monkeypatch.setattr("minigpt.distribution.devices.set_up_replicas", None)
    monkeypatch.setattr("minigpt.training.strategy.Strategy.set_up", None)
    error = (TypeError, ValueError) if thing.startswith("`") else minigpt.UserError

    def messages(function: Callable[[], Any]) -> list[str]:
        try:
            several = function()
        except error as refusal:
            return [str(refusal)]
        assert isinstance(several, list)
        return [message for one in several for message in messages(one)]

    for message in messages(lambda: call(given)):
        check(message.splitlines(), [thing])
    assert list(tmp_path.iterdir()) == []
