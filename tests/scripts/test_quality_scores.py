"""Time to quality in scripts/benchmark.py: scores, and when they are reached, without a clock."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from benchmarks.held_out import CODE_POINTS, beginnings, cut_documents, windows
from benchmarks.quality import TimedEvaluation, cosine, crossing
from benchmarks.quality_running import last_scores


def target_as_nats(inputs, targets):
    return targets.astype(np.float32)


# The score


def test_every_token_counts_once():
    ids = np.arange(10)
    text = windows(ids, length=4, n_bytes=3, vocab_size=10)
    assert text.inputs.shape == (3, 4)
    assert text.score(target_as_nats) == pytest.approx(sum(range(1, 10)) / math.log(2) / 3)


def test_score_does_not_depend_on_the_batch_or_the_window():
    ids = np.random.default_rng(0).integers(100, size=5000)
    scores = {
        windows(ids, length, 5000, vocab_size).score(target_as_nats)
        for length, vocab_size in ((8, 100), (37, 100), (64, 100_000))
    }
    assert max(scores) == pytest.approx(min(scores))


def test_estimate_is_scaled_to_the_whole_text():
    text = windows(np.full(1000, 7), 10, 1000, 10)
    assert text.score(target_as_nats, one_of=16) == pytest.approx(text.score(target_as_nats))


def test_characters_without_a_token_cost_a_code_point_each():
    ids = np.arange(9)
    more = windows(ids, 4, 8, 10, unknown=2).score(target_as_nats)
    assert more - windows(ids, 4, 8, 10).score(target_as_nats) == pytest.approx(
        2 * math.log2(CODE_POINTS) / 8
    )


def test_beginnings_of_documents_are_padded_and_cut():
    # Two documents and an empty one between them; 2 is the end token.
    ids = np.array([2, 5, 6, 7, 8, 2, 2, 9, 10, 2], np.uint16)
    rows = cut_documents(ids, 2, end_id=2)
    assert rows.tolist() == [[5, 6, 7], [9, 10, 0]]
    # The words 6, 7 and 10 are predicted.
    assert beginnings(rows, 11).score(target_as_nats) == pytest.approx((6 + 7 + 10) / 3)


# The time


@pytest.mark.parametrize(
    "points, goal, seconds",
    [
        ([(10, 1, 4.0), (20, 2, 2.0)], 3.0, 15),
        ([(10, 1, 4.0), (20, 2, 2.0)], 2.0, 20),
        ([(10, 1, 4.0), (20, 2, 3.5), (30, 3, 2.5), (40, 4, 2.0)], 3.0, 25),
        # Only the first time counts.
        ([(10, 1, 2.0), (20, 2, 4.0), (30, 3, 1.0)], 3.0, 10),
        ([(10, 1, 4.0)], 3.0, None),
        ([(10, 1, math.nan)], 3.0, None),
        ([], 3.0, None),
    ],
)
def test_time_of_a_score_is_interpolated(points, goal, seconds):
    assert crossing(points, goal) == seconds


class Training:
    """Simulates a run: 1 s and 0.01 less of the score per step, 100 s per evaluation."""

    overlapping: Any = None

    def __init__(self, monkeypatch, **options):
        self.now, self.step, self.calls = 0.0, 0, []
        monkeypatch.setattr("time.perf_counter", lambda: self.now)
        self.evaluation = TimedEvaluation(self, self, None, **options)

    def seconds(self):
        return self.now

    def score(self, nats, one_of=1):
        self.now += 100
        self.calls.append((self.step, one_of))
        return 5 - 0.01 * self.step

    def run(self):
        while True:
            self.step, self.now = self.step + 1, self.now + 1
            self.evaluation.evaluate_if_due(self.step)
            if self.evaluation.is_over:
                return self.evaluation.outcome()


def test_training_ends_at_the_last_goal_and_evaluations_take_no_time(monkeypatch):
    training = Training(monkeypatch, goals=[3.0, 4.0], stops_at_goals=True)
    outcome = training.run()
    assert crossing(outcome["points"], 4.0) == pytest.approx(100)
    assert crossing(outcome["points"], 3.0) == pytest.approx(200)
    assert 200 <= outcome["value"] <= 208
    # Far from a goal, evaluations are quick: 4.8 and 4.16 are near the first one, 3.12 is near the second.
    full = [step for step, one_of in training.calls if one_of == 1]
    assert 20 <= full[0] < 25 and full[1] >= 84 and not any(110 < step < 188 for step in full)
    assert outcome["evaluation_seconds"] == 100 * len(training.calls)


def test_overlapping_windows_are_scored_once_at_the_end(monkeypatch):
    training = Training(monkeypatch, goals=[4.0], stops_at_goals=True)
    training.overlapping = SimpleNamespace(score=lambda nats: training.calls.append("end") or 1.5)
    outcome = training.run()
    assert outcome["overlapping"] == 1.5
    assert training.calls.index("end") == len(training.calls) - 1
    runs = {"nanoGPT": outcome, "tutorial": {"points": [(3, 1, 4.0)], "overlapping": None}}
    last = outcome["points"][-1]
    expected = f"nanoGPT {last[2]:.3f} and 1.500 after {last[0]:.0f} s"
    (remark,) = last_scores("round 1 of 1", "bits/byte", runs)
    assert remark.endswith(f": {expected}")
    assert last_scores("round 1 of 1", "bits/byte", {"tutorial": runs["tutorial"]}) == []


def test_misleading_estimate_is_corrected(monkeypatch):
    """The rows of the quick evaluations are a tenth harder than the text."""
    training = Training(monkeypatch, goals=[4.0], stops_at_goals=True)
    plain = training.score
    training.evaluation.held_out = SimpleNamespace(
        score=lambda nats, one_of=1: plain(nats, one_of) * (1.09 if one_of > 1 else 1),
        overlapping=None,
    )
    points = training.run()["points"]
    assert crossing(points, 4.0) == pytest.approx(100)
    assert points[-2][0] > 95


def test_peer_is_evaluated_at_its_ends_alone(monkeypatch):
    training = Training(monkeypatch, ends=[10, 25])
    outcome = training.run()
    assert outcome["ends"] == [(10, 10, 4.9), (25, 25, 4.75)]
    assert training.calls == [(10, 1), (25, 1)]


def test_one_slow_step_can_pass_several_ends(monkeypatch):
    training = Training(monkeypatch, ends=[0.2, 0.5])
    assert training.run()["ends"] == [(1, 1, 4.99)] * 2


def test_peer_trains_on_after_its_goals(monkeypatch):
    outcome = Training(monkeypatch, goals=[4.5], last_step=80).run()
    assert outcome["value"] == 80 and outcome["ends"] == [(80, 80, 4.2)]
    assert crossing(outcome["points"], 4.5) == pytest.approx(50)


def test_last_update_is_evaluated_without_the_goal(monkeypatch):
    training = Training(monkeypatch, goals=[1.0], stops_at_goals=True)
    training.now = training.step = 7
    training.evaluation.evaluate_if_due(7, is_last=True)
    assert training.evaluation.is_over
    assert training.evaluation.outcome()["points"] == [(7, 7, 4.93)]


def test_learning_rate_follows_the_share_of_the_time(monkeypatch):
    assert [cosine(step, 0.9, 1.0, 0.1, 4) for step in (0, 3)] == pytest.approx([0.2, 0.8])
    assert [cosine(9, share, 1.0, 0.1, 4) for share in (0, 0.5, 1)] == pytest.approx([1, 0.55, 0.1])
    training = Training(monkeypatch, ends=[20])
    training.now = 5
    assert training.evaluation.share == 0.25
    training.now = 50
    assert training.evaluation.share == 1


@pytest.mark.parametrize("count", [1, 7, 8, 9, 12, 13, 40])
def test_overlapping_windows_count_each_target_once_with_half_a_context(count):
    ids = np.arange(1, count + 2)
    text = windows(ids, 8, 100, 100).overlapping
    assert sorted(text.targets[text.counted]) == list(range(2, count + 2))
    assert (text.targets - text.inputs)[text.counted].tolist() == [1] * count
    before = np.broadcast_to(np.arange(8), text.counted.shape)[1:][text.counted[1:]]
    assert (before >= 4).all()
