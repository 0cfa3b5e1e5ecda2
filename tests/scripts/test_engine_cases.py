"""The cases of the engine in scripts/benchmark.py: how a first word is found, and the models' files."""

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from benchmarks import first_word, our_engine
from benchmarks.engine_cases import engine
from benchmarks.engine_cases import first_word as first_word_case
from benchmarks.measuring import Context
from benchmarks.running import run_case

import minigpt


def program(*printed, then="import time; time.sleep(60)"):
    """Returns a command that prints some texts, each at once."""
    prints = [f"print({text!r}, end='', flush=True)" for text in printed]
    return [sys.executable, "-c", "; ".join([*prints, then])]


@pytest.mark.parametrize(
    "printed, word",
    [(["A pro", "mpt", " \n", " word"], "word"), (["\n", "A prompt, said"], ", said")],
)
def test_the_first_text_after_the_prompt_ends_the_command(printed, word):
    began = time.monotonic()
    outcome = first_word.seconds_to_word(program(*printed), "A prompt")
    assert outcome["text"] == word
    assert 0 < outcome["value"] <= time.monotonic() - began < 30


@pytest.mark.parametrize("printed", [["Usage: a program"], ["A prompt", " \n"], []])
def test_a_command_that_prints_something_else_is_an_error(printed):
    # A command that prints something else might never end.
    then = "pass" if printed != ["Usage: a program"] else "import time; time.sleep(60)"
    with pytest.raises(ValueError, match="should be the prompt and a text"):
        first_word.seconds_to_word(program(*printed, then=then), "A prompt")


def test_llama_cpp_needs_an_executable(monkeypatch, tmp_path):
    monkeypatch.setattr(first_word.shutil, "which", lambda name: None)
    skipped = {"skipped": "neither llama-completion nor llama-cli is on PATH"}
    assert first_word.executable(Context(0, tmp_path)) == skipped


class Runner:
    """Answers with a given value for each measurement."""

    def __init__(self, values):
        self.values, self.asked = values, []

    def measure(self, name, party):
        key = party.arguments.get("program", party.place)
        self.asked.append(key)
        return {"value": self.values.get(key, 1.0)}


@pytest.mark.parametrize("ours, met", [(0.9, True), (1.1, False)])
def test_the_first_word_has_two_targets(ours, met):
    # One peer is far behind the other one.
    runner = Runner({"first_word:ours": ours, "nanogpt": 5.0, "transformers": 50.0, "llama": 0.1})
    result = run_case(first_word_case(quick=False), runner)
    assert (result.met, result.ratio, result.rounds) == (met, 5.0 / ours, 5)
    assert result.peers == {"nanoGPT": 5.0, "transformers": 50.0}
    # A warm-up and five rounds.
    assert [runner.asked.count(name) for name in ("first_word:ours", "transformers", "llama")] == [
        6
    ] * 3


def test_tensorflow_is_shown_but_not_compared():
    runner = Runner({"our_engine:engine": 8.0, "llama_cpp:generation": 10.0})
    runner.values["our_engine:tensorflow"] = 100.0
    results = [run_case(case, runner) for case in engine(quick=False)]
    assert [result.case for result in results if not result.met] == []
    shown = [
        result.case for result in results if any("TensorFlow" in note for note in result.notes)
    ]
    assert shown == ["engine-2m", "engine-20m", "engine-124m"]


def test_the_smallest_model_is_measured_in_both_ways(tmp_path):
    context = Context(0, tmp_path)
    our_engine.prepare(context, "2m", "int8")
    file = our_engine.portable_file(context, "2m", "int8")
    model = minigpt.load_portable(file)
    sizes = our_engine.SIZES["2m"]
    assert (model.vocab_size, model.max_len) == (sizes.vocab_size, sizes.context)
    assert len(model.tokenizer.encode(our_engine.PROMPT)) == len(our_engine.PROMPT)
    # llama.cpp reads this architecture.
    assert b"general.architecture" in file.read_bytes()[:200] and b"gpt2" in file.read_bytes()[:200]
    for measured in (
        our_engine.engine(context, "2m", "int8", new_tokens=3, calls=1),
        our_engine.tensorflow(context, "2m", new_tokens=3, calls=1),
    ):
        assert measured["value"] > 0
