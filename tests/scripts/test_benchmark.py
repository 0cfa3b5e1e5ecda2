"""The arithmetic of the report of scripts/benchmark.py. Nothing is timed here."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import benchmark
from benchmarks.cases import build_cases
from benchmarks.limits import backward_products, forward_products
from benchmarks.measuring import Context, SteadySpeed
from benchmarks.our_training import SIZES, settings
from benchmarks.report import Target, number, summarize, table, write_json
from benchmarks.rounds import Measurement, far_behind, run_rounds
from benchmarks.sizes import GPT2_124M, MODERN, WORDS


def outcomes(*values, memory=None):
    return [{"value": value} | ({"memory": memory} if memory else {}) for value in values]


def test_more_is_better_is_held_against_the_fastest_peer():
    peers = {"slow": outcomes(50.0, memory=1.0), "fast": outcomes(90, 100, 400, memory=10.0)}
    ours = outcomes(190, 200, 9000, memory=4.0)
    result = summarize("case", "tokens/s", True, Target(2, 0.4), ours, peers, limit=250)
    assert (result.ours, result.peers) == (200, {"slow": 50, "fast": 100})
    assert (result.ratio, result.memory_ratio, result.share_of_limit) == (2, 0.4, 0.8)
    assert result.met and result.rounds == 3
    assert result.memory == {"ours": 4, "slow": 1, "fast": 10}


def test_less_is_better_is_held_against_the_quickest_peer():
    peers = {"slow": outcomes(30.0), "quick": outcomes(12.0)}
    result = summarize("case", "s", False, Target(3), outcomes(4.0), peers, limit=1.0)
    assert (result.ratio, result.share_of_limit, result.met) == (3, 0.25, True)
    assert not summarize("case", "s", False, Target(3), outcomes(4.1), peers).met


@pytest.mark.parametrize(
    "target",
    [Target(2.01), Target(2, memory_ratio=0.39), Target(2, share_of_limit=0.81)],
    ids=["speed", "memory", "limit"],
)
def test_every_part_of_a_target_has_to_be_met(target):
    ours, peers = outcomes(200.0, memory=4.0), {"peer": outcomes(100.0, memory=10.0)}
    assert not summarize("case", "tokens/s", True, target, ours, peers, limit=250).met


def test_what_was_not_measured_does_not_hold():
    peers = {"peer": [{"failed": "why"}]}
    without_peer = summarize("case", "tokens/s", True, Target(2), outcomes(1.0), peers)
    assert (without_peer.ratio, without_peer.peers, without_peer.met) == (None, {}, False)
    without_ours = summarize("case", "tokens/s", True, Target(), [{"failed": "why"}], {})
    assert (without_ours.ours, without_ours.met) == (None, False)
    # Memory that was asked for, and that the peer did not tell.
    peers = {"peer": outcomes(1.0)}
    assert not summarize("case", "s", False, Target(1, 1), outcomes(1.0, memory=1.0), peers).met


def test_a_failed_check_misses_the_target():
    ours, peers = outcomes(2.0), {"peer": outcomes(1.0)}
    for holds in (True, False):
        result = summarize("case", "x", True, Target(2), ours, peers, checks={"equal": holds})
        assert result.met is holds


def test_peers_far_behind_are_measured_once():
    parties = {name: Measurement(name) for name in ("ours", "fast", "close", "slow", "broken")}
    values = {"ours": 1.0, "fast": 100.0, "close": 81.0, "slow": 79.0}

    class Runner:
        def measure(self, name, party):
            value = values.get(party.place)
            return {"failed": "why"} if value is None else {"value": value}

    measured = run_rounds(Runner(), "case", parties, 3, 100, True, frozenset({"ours"}))
    assert {name: len(of) for name, of in measured.items()} == {
        "ours": 3,
        "fast": 3,
        "close": 3,
        "slow": 1,
        "broken": 1,
    }
    assert far_behind({"a": outcomes(1.0), "b": outcomes(2.0)}, False, frozenset()) == {"b"}


def test_no_round_begins_without_time():
    class Runner:
        def measure(self, name, party):
            return {"value": 1.0}

    assert (
        len(
            run_rounds(Runner(), "case", {"ours": Measurement("")}, 3, -1, True, frozenset())[
                "ours"
            ]
        )
        == 1
    )


def test_first_steps_do_not_count(monkeypatch):
    now = iter([10.0, 100.0, 101.0, 104.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    steady = SteadySpeed(tokens_per_step=60, first=2, steps=3, seconds=0.5)
    # The last call made two updates.
    assert [steady.seen(step) for step in (1, 2, 3, 5)] == [False, False, False, True]
    assert steady.tokens_per_second == 3 * 60 / 4


def test_products_of_a_step():
    def operations(products):
        return sum(2 * count * side * m * k * n for count, side, m, k, n in products)

    for sizes in (WORDS, MODERN, GPT2_124M):
        forward = forward_products(sizes)
        heads = sizes.num_heads * sizes.head_dim
        attention = 4 * sizes.num_layers * sizes.tokens_per_step * sizes.length * heads
        matrices = 2 * sizes.tokens_per_step * sizes.matrix_parameters
        assert operations(forward) == matrices + attention
        assert operations(backward_products(forward)) == 2 * operations(forward)


@pytest.mark.parametrize("system", SIZES)
def test_measured_models_are_those_of_sizes(system, monkeypatch, tmp_path):
    """Whatever the configurations become: here, all of them lose their sizes."""
    import minigpt
    from minigpt.config import load_config
    from minigpt.config.loading import FORMAT

    def without_sizes(source=None, overrides=(), text=()):
        sections = load_config(source, text=text).model_dump(exclude_unset=True)
        for section in ("model", "training"):
            sections[section] = {}
        return load_config({"format": FORMAT} | sections, overrides)

    monkeypatch.setattr(minigpt, "load_config", without_sizes)
    monkeypatch.setattr("benchmarks.texts.write_text", lambda path, *sizes: path)
    config = settings(Context(0, tmp_path), system)
    sizes, model = SIZES[system], config.model.resolved()
    assert (config.training.batch_size, config.sequence_length) == (sizes.batch_size, sizes.length)
    names = ["embed_dim", "num_heads", "head_dim", "ff_dim", "num_layers"]
    assert [getattr(model, name) for name in names] == [getattr(sizes, name) for name in names]
    assert (model.max_len, model.is_modern) == (sizes.context, sizes.gated)
    assert config.tokenizer.vocab_size == sizes.vocab_size


def test_json_has_what_the_table_shows(tmp_path):
    result = summarize("case", "s", False, Target(0.9, words="same text"), outcomes(4.0), {})
    write_json(tmp_path / "results.json", [result])
    (line,) = json.loads((tmp_path / "results.json").read_text())
    wanted = [
        "case",
        "ours",
        "unit",
        "peers",
        "ratio",
        "memory_ratio",
        "limit",
        "share_of_limit",
        "target",
        "met",
    ]
    assert list(line)[: len(wanted)] == wanted
    assert line["target"] == "≥ 0.9 ×, same text"
    assert table([result]).row_count == 1
    assert [number(x) for x in (None, 0.1234, 12.34, 1234.5)] == ["–", "0.123", "12.3", "1,234"]


def test_all_cases_are_there():
    names = "train-words train-characters train-default train-modern train-124m sample-one"
    names += " sample-eight sample-124m sample-callback export-call first-word"
    names += " engine-2m engine-2m-int8 engine-20m engine-20m-int8 engine-124m engine-124m-int8"
    names += " page-open page-speed page-open-124m-int8 start tokenize"
    names += " grow"
    names += " plan-default plan-text plan-characters plan-words plan-pairs plan-short"
    for quick in (False, True):
        cases = build_cases(quick)
        assert [case.name for case in cases] == names.split()
    assert sum(case.budget_seconds for case in build_cases(False)) <= 110 * 60


def test_a_case_or_the_beginning_of_several():
    names = ["quality", "quality-words", "engine-2m", "engine-20m", "engines"]
    assert benchmark.matching("quality", names) == ["quality"]
    assert benchmark.matching("engine", names) == ["engine-2m", "engine-20m"]
    assert benchmark.matching("engine-2", names) == []


@pytest.mark.parametrize(
    "asked, said",
    [
        (["nosuch"], "unknown case nosuch; should be one of quality, "),
        (["tokenize", "--rounds", "0"], "--rounds 0: should be 1 or more"),
        (["quality", "--shakespeare", "/nowhere"], "--shakespeare /nowhere: no such file"),
        (["tokenize", "--output", "/"], "--output /: should be a file in a writable folder"),
        (["tokenize", "--output", "/no/x.json"], "--output /no/x.json: should be a file in a"),
        (
            ["tokenize", "--set", "training.epochs=1"],
            "--set: has no effect without one of quality, ",
        ),
        (["tokenize", "--reuse-peers"], "--reuse-peers: has no effect without one of quality, "),
        (["engine"], "xllamacpp not installed: pip install"),
        (["page"], "playwright not installed: pip install"),
        (["first-word"], "torch, transformers, xllamacpp not installed: pip install"),
        (["sample-one"], "keras_hub, torch, transformers not installed: pip install"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(asked, said, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmark.py", *asked])
    monkeypatch.setattr(benchmark.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as refused:
        benchmark.main()
    assert refused.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"benchmark.py: {said}")


@pytest.mark.parametrize("status", [0, 1, 130])
def test_ended_well_with_a_failure_or_by_ctrl_c(status, monkeypatch, capsys, tmp_path):
    """What was measured is shown in each case; the folder stays for its logs after a failure alone."""
    names = ["tokenize", "grow"]

    def run_case(case, runner, rounds):
        if case.name == names[1] and status == 130:
            raise KeyboardInterrupt
        notes = ["ours failed: no value (see LOG)"] if status == 1 else []
        return summarize(
            case.name, "s", False, Target(1), outcomes(2), {"p": outcomes(4)}, notes=notes
        )

    monkeypatch.setattr("sys.argv", ["benchmark.py", *names])
    monkeypatch.setattr(benchmark, "run_case", run_case)
    monkeypatch.setattr(benchmark.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "work"))
    assert benchmark.main() == status
    out = capsys.readouterr().out
    assert "| tokenize | 2 s" in out
    assert ("| grow " in out) == (status != 130)
    assert ("interrupted" in out) == (status == 130)
    assert (tmp_path / "work").exists() == (status == 1)
