"""Time to quality in scripts/benchmark.py: scores to reach, rounds, table, cases. Nothing is timed here."""

import json
import sys
from io import StringIO
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import benchmark
from benchmarks.quality_cases import Goal, QualityCase, Texts, build_quality_cases
from benchmarks.quality_report import Timing, quality_remarks, quality_table, summarize_quality
from benchmarks.quality_running import Peers, run_quality_case, score_to_reach
from benchmarks.rounds import Measurement
from rich.console import Console

PEER = Measurement("nanogpt:quality", {"steps": 2})


def case(*goals, rounds=1, peers=("peer",)):
    parties = {name: Measurement(f"{name}:quality", {"steps": 2}) for name in peers}
    return QualityCase("quality-x", "bits/byte", "prose", parties, goals, (), rounds)


def printed(results):
    console = Console(width=300, file=StringIO())
    console.print(quality_table(results, markdown=True))
    lines = console.file.getvalue().strip().splitlines()
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines[2:]]


# The score to reach


def test_score_to_reach_is_the_lowest_of_the_peers_at_that_end():
    runs = {
        "a": {"ends": [[10, 1, 5.0], [21, 2, 3.0]]},
        "b": {"ends": [[11, 9, 4.0], [20, 18, 3.5]]},
        "c": {"failed": "why"},
    }
    assert score_to_reach(Goal("", end=0), runs) == (4.0, "b", 11)
    assert score_to_reach(Goal("", end=1), runs) == (3.0, "a", 21)
    assert score_to_reach(Goal(""), {"c": {"failed": "why"}}) == (None, "", None)


def test_fixed_score_is_timed_by_the_quickest_peer():
    runs = {
        "a": {"points": [[10, 1, 5.0], [20, 2, 3.0]]},
        "b": {"points": [[10, 1, 4.0]]},
        "c": {"points": [[30, 1, 2.0]]},
    }
    assert score_to_reach(Goal("", fixed=4.5), runs) == (4.5, "b", 10)
    assert score_to_reach(Goal("", fixed=1.0), runs) == (1.0, "", None)


class Runner:
    """Returns prepared outcomes by the name of a party, in order."""

    def __init__(self, **outcomes):
        self.outcomes = {name: iter(of) for name, of in outcomes.items()}
        self.asked = []

    def measure(self, name, party):
        who = name.split(": ")[1].split(",")[0]
        self.asked.append((who, dict(party.arguments)))
        return next(self.outcomes[who])


def peer_run(seconds, score):
    return {"value": seconds, "points": [[seconds, 9, score]], "ends": [[seconds, 9, score]]}


def our_run(*points):
    return {"value": points[-1][0], "points": [[seconds, 1, score] for seconds, score in points]}


def test_minigpt_trains_until_the_score_of_the_round(tmp_path):
    runner = Runner(
        peer=[peer_run(100, 3.0), peer_run(120, 2.0), peer_run(110, 2.5)],
        ours=[
            our_run((20, 4), (40, 2)),
            our_run((20, 4), (60, 1.9)),
            our_run((20, 2.5)),
        ],
    )
    peers = Peers(runner, False, "a machine", tmp_path / "peers.json")
    goal = Goal("after 9 steps", ratio=3.6)
    (result,) = run_quality_case(case(goal, rounds=3), peers, overrides=["a.b=1"])
    wanted = [{"text": "prose", "goals": [score], "overrides": ["a.b=1"]} for score in (3, 2, 2.5)]
    assert [arguments for who, arguments in runner.asked if who == "ours"] == wanted
    assert (result.score_to_reach, result.ours, result.peer, result.rounds) == (2.5, 30, 110, 3)
    assert result.ratio == pytest.approx(110 / 30) and result.met
    assert "minigpt with a.b=1" in result.notes
    assert not (tmp_path / "peers.json").exists()


def test_peer_is_trained_once_if_its_run_is_reused(tmp_path):
    runner = Runner(peer=[peer_run(100, 3.0)], ours=[our_run((50, 3))] * 3)
    peers = Peers(runner, True, "a machine", tmp_path / "peers.json")
    results = run_quality_case(case(Goal("a"), rounds=2), peers)
    results += run_quality_case(case(Goal("b"), rounds=1), peers)
    assert [result.ratio for result in results] == [2, 2]
    assert [who for who, _ in runner.asked] == ["peer", "ours", "ours", "ours"]
    assert "round 1 of 1: the peers' runs are those of an earlier round or case" in results[1].notes
    record = json.loads((tmp_path / "peers.json").read_text())
    assert record["machine"] == "a machine" and len(record["runs"]) == 1
    # The record is for readers: another invocation measures again.
    again = Peers(Runner(peer=[peer_run(7, 1.0)]), True, "a machine", tmp_path / "peers.json")
    assert again.run("quality-x: peer, 1", PEER)["value"] == 7


def test_missed_score_shows_how_far_training_came(tmp_path):
    runner = Runner(peer=[peer_run(100, 3.0)], ours=[our_run((50, 4), (70, 3.25))])
    goal = Goal("after 9 steps", seconds=75)
    results = run_quality_case(case(goal), Peers(runner, False, "", tmp_path / "x"))
    assert (results[0].ours, results[0].ratio, results[0].met) == (None, None, False)
    assert printed(results)[0][3] == "not reached: 3.250 after 70 s"


def test_failed_measurement_ends_the_case(tmp_path):
    runner = Runner(peer=[{"failed": "no memory"}, peer_run(1, 1)])
    results = run_quality_case(
        case(Goal("a"), Goal("b"), rounds=3), Peers(runner, True, "", tmp_path / "x")
    )
    assert [(result.score_to_reach, result.ours, result.met) for result in results] == [
        (None, None, False)
    ] * 2
    assert len(runner.asked) == 1
    assert quality_remarks(results) == ["quality-x: peer failed: no memory"]
    assert all(map(benchmark.quality_failed, results))


@pytest.mark.parametrize(
    "goal, met",
    [
        (Goal("", ratio=2), True),
        (Goal("", ratio=2.1), False),
        (Goal("", seconds=50), True),
        (Goal("", ratio=2, seconds=49), False),
    ],
)
def test_target_is_a_ratio_or_seconds(goal, met):
    result = summarize_quality(case(goal), goal, [Timing(3.0, "peer", 100.0, 50.0)], [])
    assert result.met is met


def test_table_says_who_set_the_score():
    goal = Goal("after 180 s", seconds=75)
    timing = Timing(0.2512, "PyTorch", 180.4, 60.0)
    (cells,) = printed([summarize_quality(case(goal), goal, [timing], [])])
    assert cells == [
        *("quality-x", "0.251 bits/byte", "PyTorch after 180 s", "60 s", "180 s", "3.01 ×"),
        *("≤ 75 s", "yes"),
    ]


# The cases


def test_quality_cases():
    names = "quality quality-characters quality-words quality-default quality-text"
    for quick in (False, True):
        cases = build_quality_cases(quick, Texts(imdb="a", prose="b"))
        assert [case.name for case in cases] == names.split()
        first, second = cases[:2]
        # One run serves both.
        assert first.peers == second.peers
    words = build_quality_cases(False, Texts(imdb="a"))[2]
    assert [goal.words for goal in words.goals] == ["after 129 s", "after 259 s", "after 623 s"]
    assert words.peers["tutorial"].arguments["seconds"] == (129, 259, 623)


def test_targets():
    cases = build_quality_cases(False, Texts(imdb="a"))
    found = {case.name: [(goal.ratio, goal.seconds) for goal in case.goals] for case in cases}
    assert found == {
        "quality": [(8, None)],
        "quality-characters": [(8, None)],
        "quality-words": [(None, None), (None, None), (None, 120)],
        "quality-default": [(4.8, None)],
        "quality-text": [(8, None)],
    }
    assert [case.goals[-1].target for case in cases[1:4]] == ["≥ 8 ×", "≤ 120 s", "≥ 4.8 ×"]


def test_what_is_absent_is_skipped_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["benchmark.py", "quality-words", "quality", "tokenize"])
    for name in benchmark.TEXTS:
        monkeypatch.delenv(f"MINIGPT_{name.upper()}", raising=False)
    find_spec = benchmark.util.find_spec
    monkeypatch.setattr(
        benchmark.util, "find_spec", lambda name: None if name == "torch" else find_spec("json")
    )
    monkeypatch.setattr(benchmark.metadata, "version", lambda name: "1")
    monkeypatch.setattr(benchmark.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "work"))
    done = benchmark.Result("tokenize", 1.0, "MB/s", {}, None, None, None, None, "≥ 1 ×", True)
    monkeypatch.setattr(benchmark, "run_case", lambda case, runner, rounds: done)
    assert benchmark.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("quality: skipped: torch not installed: pip install" in line for line in lines) == 1
    assert "quality-words: skipped: set MINIGPT_IMDB to the archive aclImdb_v1.tar.gz" in lines


def test_nothing_left_to_run_is_an_error_of_one_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmark.py", "quality-words"])
    monkeypatch.delenv("MINIGPT_IMDB", raising=False)
    with pytest.raises(SystemExit) as refused:
        benchmark.main()
    assert refused.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("benchmark.py: quality-words: set MINIGPT_IMDB")


def test_settings_are_checked_before_the_peers_train(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(benchmark.util, "find_spec", lambda name: object())
    (tmp_path / "text").write_text("a text")
    # Each case has limits of its own: 100 words or characters are enough.
    command = ["benchmark.py", f"--imdb={tmp_path / 'text'}", "--set", "tokenizer.vocab_size=100"]
    monkeypatch.setattr("sys.argv", [*command, "quality", "quality-words"])
    given, quality, _ = benchmark.arguments()
    assert given.set == ["tokenizer.vocab_size=100"] and len(quality) == 2
    command += ["quality-default", "quality-text", "--set=training.epoch=1", "--set=nonsense"]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as refused:
        benchmark.arguments()
    assert refused.value.code == 2
    assert capsys.readouterr().err == (
        "benchmark.py: --set nonsense: should be SECTION.KEY=VALUE, such as training.epochs=3; "
        "--set tokenizer.vocab_size = 100: should be greater than or equal to 259; "
        "--set training.epoch = 1: unknown setting; did you mean training.epochs?\n"
    )


def test_time_to_quality_is_printed_first(monkeypatch, capsys, tmp_path):
    goal = Goal("fixed", fixed=2.75, ratio=4)
    found = summarize_quality(case(goal), goal, [Timing(2.75, "nanoGPT", 80.0, 16.0)], ["a note"])
    speed = benchmark.Result("tokenize", 1.0, "MB/s", {}, None, None, None, None, "≥ 1 ×", False)
    monkeypatch.setattr("sys.argv", ["x", "tokenize", "quality", f"--output={tmp_path / 'x.json'}"])
    monkeypatch.setattr(benchmark.util, "find_spec", lambda name: object())
    monkeypatch.setattr(benchmark.metadata, "version", lambda name: "1")
    monkeypatch.setattr(benchmark, "run_quality_case", lambda *arguments: [found])
    monkeypatch.setattr(benchmark, "run_case", lambda *arguments: speed)
    monkeypatch.setattr(benchmark.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "work"))
    assert benchmark.main() == 0
    out = capsys.readouterr().out
    assert out.index("| quality-x | 2.750 bits/byte | fixed") < out.index("| tokenize | 1 MB/s")
    assert (
        "quality-x: a note" in out
        and "not meaningful" not in out
        and "1 of 2 meet their target" in out
    )
    first, second = json.loads((tmp_path / "x.json").read_text())
    assert (first["case"], first["ours"], first["ratio"]) == ("quality-x", 16, 5)
    assert second["case"] == "tokenize"
