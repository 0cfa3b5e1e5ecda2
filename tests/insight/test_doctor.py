"""The doctor's rules, on curves made for them, and on the recorded histories of real runs."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from minigpt.config import load_config
from minigpt.insight.doctor import diagnose
from minigpt.insight.history import read_history
from minigpt.runs.analysis import TITLES
from minigpt.runs.run import Run
from tests.insight.histories import (
    MEASURED,
    UNIGRAM,
    constant,
    history,
    power_law,
    recorded,
    saturating,
)


def ids(*args, **kwargs) -> list[str]:
    return [verdict.id for verdict in diagnose(history(*args, **kwargs))]


def test_a_good_training_gets_no_verdict():
    assert ids(saturating(1.6), lambda share: 0.1 * share) == []


def test_every_verdict_names_figures():
    found = [
        *diagnose(history(lambda step: 2.0 + np.maximum(0, step - 500) / 200)),
        *diagnose(history(constant(3.31))),
        *diagnose(history(power_law(0.0, 0.15))),
        *diagnose(history(saturating(1.0), lambda share: 2 * share)),
        *diagnose(history(saturating(2.4), parameters=3000)),
        *diagnose(history(saturating(1.6), analysis=last_state(share=0.5))),
        *diagnose(history(saturating(1.6), analysis={"text": [FINDING]})),
        *diagnose(history(saturating(1.6), analysis={"held_out": OTHER_LANGUAGE})),
        *diagnose(history(saturating(1.6), analysis={"baselines": {"ngram": 1.5}})),
        *diagnose(history(saturating(1.6), val_loss_before=1.5)),
    ]
    assert {verdict.id for verdict in found} == set(TITLES)
    for verdict in found:
        assert any(character.isdigit() for character in verdict.evidence)


def test_only_the_first_advice_is_given():
    """Two could contradict each other."""
    both = {"baselines": {"ngram": 1.0, "byte_ngram_bits_per_byte": 0.5}, "text": [FINDING]}
    for curve, gap in ((saturating(1.0), 2.0), (power_law(0.0, 0.15), 0.0)):
        found = diagnose(history(curve, lambda share, gap=gap: gap * share, analysis=both))
        assert len(found) == 3
        assert [bool(verdict.action) for verdict in found].count(True) == 1


def test_a_training_loss_that_rises_again_is_diverging():
    lowest, learned = 2.0, UNIGRAM - 2.0
    for rise in (0.1, 0.5):
        curve = lambda step: np.where(step < 500, lowest, lowest + rise * learned)  # noqa: B023, E731
        found = ids(curve)
        assert ("diverging" in found) == (rise > 0.25) and "overfitted" not in found


def test_a_loss_that_became_nan_is_diverging_even_without_an_epoch():
    assert ids(saturating(1.6), has_failed=True) == ["diverging"]
    failed = replace(history(saturating(1.6), has_failed=True), epochs=[])
    assert [verdict.id for verdict in diagnose(failed)] == ["diverging"]


def test_the_unigram_loss_is_not_learning():
    assert ids(constant(UNIGRAM)) == ["not_learning"]
    assert ids(constant(0.9 * UNIGRAM)) == []
    assert ids(constant(1.5 * UNIGRAM)) == ["not_learning"]
    # Still on the way from the uniform distribution: too short, no more can be said.
    assert ids(lambda step: 5.5 - step / 500) == ["too_short"]


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        ({"max_minutes": "none"}, "training.epochs=20"),
        # It ended early.
        ({"max_minutes": "none", "epochs": 11}, "training.epochs=22"),
        # The time ended it, in the last epoch and in an earlier one.
        (
            {"max_minutes": 1.5, "step_limits": [[500, 1000]]},
            "training.max_minutes=3 --set training.epochs=20",
        ),
        (
            {"max_minutes": 1.5, "step_limits": [[500, 1000]], "epochs": 11},
            "training.max_minutes=3",
        ),
        # The epochs ended it, after 50 seconds: there is time for twice as many, and there is not.
        ({"max_minutes": 2}, "training.epochs=20"),
        ({"max_minutes": 1.5}, "training.max_minutes=3 --set training.epochs=20"),
    ],
)
def test_too_short_has_the_command_for_twice_as_long(settings, change):
    found = history(power_law(0.0, 0.15), settings=settings)
    (verdict,) = diagnose(replace(found, epochs=[replace(e, seconds=50) for e in found.epochs]))
    assert verdict.id == "too_short"
    command = verdict.runnable_action("my run").split("`")[1]
    assert command == f"minigpt train --resume 'my run' --set {change}"


def test_an_interrupted_training_is_resumed_and_one_that_runs_is_not_short():
    (verdict,) = diagnose(history(power_law(0.0, 0.15), analysis={"state": "interrupted"}))
    assert verdict.id == "too_short" and "`minigpt train --resume RUN`" in verdict.action
    assert ids(power_law(0.0, 0.15), analysis={"state": "training"}) == []


def test_a_decayed_learning_rate_does_not_hide_that_training_was_too_short():
    """The loss depends on the sum of the learning rates, which hardly grows at the end."""
    rates = 0.5 * (1 + np.cos(np.pi * np.arange(1000) / 1000))
    sums = np.cumsum(rates)
    curve = lambda step: 5.5 * sums**-0.15  # noqa: E731
    assert ids(curve, learning_rates=rates) == ["too_short"]
    assert history(power_law(0.0, 0.15)).fall_of_doubling() == pytest.approx(1 - 2**-0.15, rel=0.02)
    found = history(curve, learning_rates=rates).fall_of_doubling()
    assert found == pytest.approx(1 - 2**-0.15, rel=0.1)


def test_more_training_does_not_help_if_it_does_not_reach_the_held_out_text():
    # The training loss still falls, the validation loss has not for half of the training.
    train = power_law(0.0, 0.15)
    level = 5.5 * 400**-0.15
    gap = lambda share: max(0.0, level - 5.5 * (1000 * share) ** -0.25)  # noqa: E731
    assert "too_short" not in ids(train, gap)


def test_a_last_epoch_of_a_step_says_nothing_about_the_held_out_text():
    """A time limit may end an epoch after its first step."""
    found = history(power_law(0.0, 0.15), epochs=2)
    first, last = found.epochs
    ends = [replace(first, step=999, val_loss=last.val_loss), last]
    assert [verdict.id for verdict in diagnose(replace(found, epochs=ends))] == ["too_short"]


def test_after_a_few_updates_nothing_else_can_be_said():
    """Losses of single updates differ by more than 3%; compiling may take the whole time limit."""
    assert ids(constant(5.4), steps=1, epochs=1) == ["too_short"]
    noisy = lambda step: 5.0 - 0.02 * step + 0.3 * (step % 2)  # noqa: E731
    assert ids(noisy, steps=19, epochs=1) == ["too_short"]
    # A model that knows the language needs only a few.
    assert ids(constant(4.0), steps=19, epochs=1, val_loss_before=4.1) == []
    assert "diverging" not in ids(noisy, steps=21, epochs=1)


def test_a_large_gap_is_overfitted_even_if_the_validation_loss_falls():
    falling = lambda step: 2.5 - 1.5 * step / 1000  # noqa: E731
    assert "overfitted" in ids(falling, lambda share: 0.75 * share)
    assert "overfitted" not in ids(falling, lambda share: 0.5 * share)


def test_a_validation_loss_that_rises_alone_is_overfitted():
    found = ids(saturating(0.5, 200), lambda share: 2.0 * share)
    assert "overfitted" in found and "diverging" not in found
    together = lambda step: np.where(step < 500, 2.8, 2.9)  # noqa: E731
    assert "overfitted" not in ids(together, lambda share: 0.02 + 0.13 * share)


def last_state(**measured) -> dict:
    return {"memorization": {"last": MEASURED | measured}}


def test_memorized_is_what_copies_and_overfitted_what_has_a_gap():
    gap = lambda share: 1.0 * share  # noqa: E731
    assert ids(saturating(1.0), gap) == ["overfitted"]
    few = last_state(share=0.88, held_out_share=0.8)
    assert ids(saturating(1.0), gap, analysis=few) == ["overfitted"]
    for share, expected in ((0.31, ["memorized"]), (0.29, [])):
        found = last_state(share=share, held_out_share=0.1)
        assert ids(saturating(1.6), analysis=found) == expected
    copies = {"share": 0.5, "held_out_share": 0.1}
    assert ids(saturating(1.6), analysis=last_state(**copies)) == ["memorized"]
    assert ids(saturating(1.6), analysis=last_state(share=0.5, held_out_share=0.45)) == []
    # The best state has copied, the last one has not.
    best = {"memorization": {"best": MEASURED | copies}}
    assert ids(saturating(1.6), analysis=best) == []
    # What was measured before training was resumed does not count.
    for epoch, expected in ((10, ["memorized"]), (4, [])):
        assert ids(saturating(1.6), analysis=last_state(**copies, epoch=epoch)) == expected


def test_no_advice_against_overfitting_for_a_run_that_began_from_another():
    for settings, advised in (({}, True), ({"init_from": "english"}, False)):
        run = history(saturating(1.0), lambda share: 2 * share, settings=settings)
        (verdict,) = diagnose(run)
        assert verdict.id == "overfitted" and bool(verdict.action) == advised


def test_what_was_read_once_is_not_overfitted():
    short, gap = power_law(0.0, 0.15), lambda share: 1.0 * share
    assert "overfitted" in ids(short, gap, train_tokens=900_000)
    assert "overfitted" not in ids(short, gap, train_tokens=1_100_000)


# As measured in tiny Shakespeare that ends in German, and in tiny Shakespeare.
OTHER_LANGUAGE = {"bigram": [3.21, 2.444, 2.463, 2.478]}
SAME_LANGUAGE = {"bigram": [2.482, 2.466, 2.484, 2.523]}
FINDING = {"kind": "repeated_text", "evidence": "50% is repeated."}


def test_held_out_text_that_is_unlike_the_training_text():
    (verdict,) = diagnose(history(saturating(1.6), analysis={"held_out": OTHER_LANGUAGE}))
    assert verdict.id == "unlike" and "data.document_separator" in verdict.action
    for figure in ("3.210", "2.444 to 2.478"):
        assert figure in verdict.evidence
    for nothing in (SAME_LANGUAGE, {}):
        assert ids(saturating(1.6), analysis={"held_out": nothing}) == []
    # The gap has another reason than memory.
    gap = lambda share: 1.0 * share  # noqa: E731
    assert ids(saturating(1.0), gap, analysis={"held_out": OTHER_LANGUAGE}) == ["unlike"]
    assert ids(saturating(1.0), gap, analysis={"held_out": SAME_LANGUAGE}) == ["overfitted"]
    both = {"held_out": OTHER_LANGUAGE, **last_state(share=0.5, held_out_share=0.1)}
    assert ids(saturating(1.0), gap, analysis=both) == ["unlike", "memorized"]
    # Parts of a text that repeats itself predict each other.
    analysis = {"held_out": OTHER_LANGUAGE, "text": [FINDING]}
    assert ids(saturating(1.6), analysis=analysis) == ["suspicious_text"]


def test_copies_in_files_of_the_user_can_be_left_out():
    own = {"config": load_config({"data": {"source": "files", "paths": ["a.txt"]}})}
    for kind, config, words in (
        ("repeated_line", own, ("data.duplicates", "data.by_line = true")),
        ("encoding", own, ("Remove this",)),
        ("duplicates", {}, ("Remove this",)),
    ):
        analysis = {"text": [{**FINDING, "kind": kind}]}
        (verdict,) = diagnose(history(saturating(1.6), analysis=analysis, **config))
        assert all(word in verdict.action for word in words)


@pytest.mark.parametrize(
    ("ngram", "byte_ngram", "is_below"),
    [(1.5, 3.0, True), (1.7, 0.9, True), (1.7, 1.1, False), (1.5, None, True), (None, None, False)],
)
def test_a_model_that_does_not_beat_counts(ngram, byte_ngram, is_below):
    baselines = {"ngram": ngram, "byte_ngram_bits_per_byte": byte_ngram}
    expected = ["below_ngram"] * is_below
    assert ids(saturating(1.6), analysis={"baselines": baselines}) == expected
    assert ids(saturating(1.6), analysis={"baselines": baselines, "state": "training"}) == []


def test_a_model_that_overfitted_is_not_trained_for_longer():
    analysis = {"baselines": {"ngram": 1.0, "byte_ngram_bits_per_byte": 0.5}}
    found = diagnose(history(saturating(1.0), lambda share: 2 * share, analysis=analysis))
    assert [verdict.id for verdict in found] == ["overfitted", "below_ngram"]
    assert not any("--resume" in verdict.action for verdict in found)


def test_a_run_that_began_from_another_is_compared_with_one_from_nothing():
    settings = {"init_from": "runs/base"}
    analysis = {"baselines": {"ngram": 1.0, "byte_ngram_bits_per_byte": 0.5}}
    (verdict,) = diagnose(history(saturating(1.6), settings=settings, analysis=analysis))
    assert verdict.id == "below_ngram"
    assert "began from base" in verdict.evidence and "--base none" in verdict.action
    # It is the advice even if the loss is falling.
    steep = diagnose(history(lambda x: 8 - 5 * x, settings=settings, analysis=analysis))
    assert ["--base none" in each.action for each in steep if each.action] == [True]
    # One that knew the text and learned more of it goes on.
    before = 2 * history(saturating(1.6)).best.val_loss
    run = history(saturating(1.6), settings=settings, analysis=analysis, val_loss_before=before)
    (verdict,) = diagnose(run)
    assert verdict.id == "below_ngram" and "--resume" in verdict.action


def test_a_run_that_is_no_better_than_its_base(tmp_path, tiny_run):
    last = history(saturating(1.6)).best.val_loss
    assert ids(saturating(1.6), val_loss_before=last + 0.1) == []
    (verdict,) = diagnose(history(saturating(1.6), val_loss_before=last))
    assert (verdict.id, verdict.action) == ("no_better", "")
    # Counts predict the text better than the last state, and then also better than the first one.
    settings, before = {"init_from": "english"}, 0.9 * last
    for share, expected in ((0.95, ["no_better"]), (0.85, ["no_better", "below_ngram"])):
        analysis = {"baselines": {"ngram": share * last}}
        run = history(saturating(1.6), settings=settings, analysis=analysis, val_loss_before=before)
        found = diagnose(run)
        assert [verdict.id for verdict in found] == expected
        assert ["--base none" in verdict.action for verdict in found] == [False, True][: len(found)]
        analysis = {"baselines": {"ngram": 9.0, "byte_ngram_bits_per_byte": share}}
        run = history(saturating(1.6), settings=settings, analysis=analysis, val_loss_before=before)
        assert [verdict.id for verdict in diagnose(run)] == expected
    # The record of step 0 is no epoch.
    before = {"epoch": 0, "step": 0, "train_loss": 9.0, "val_loss": 0.1}
    shutil.copytree(tiny_run.path, tmp_path / "run")
    run = Run(tmp_path / "run")
    lines = run.metrics_file.read_text()
    run.metrics_file.write_text(json.dumps(before) + "\n" + lines)
    read = read_history(run)
    assert read.val_loss_before == 0.1 and len(read.epochs) == len(lines.splitlines())


def test_too_small_for_the_text():
    assert ids(saturating(2.4), parameters=5_000) == ["too_small"]
    # It still falls, it is far below its validation loss, or the text is short.
    assert "too_small" not in ids(power_law(0.0, 0.15), parameters=5_000)
    assert ids(saturating(2.0), lambda share: 0.1, parameters=5_000) == []
    assert ids(saturating(2.4), parameters=5_000, train_tokens=50_000, train_bytes=50_000) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Runs on tiny Shakespeare and on the stories, of 50 to 2,000 updates. None beats 7-grams.
        ("play", []),
        ("words", []),
        ("stories", []),
        ("adam", ["too_short"]),
        ("too_short", ["too_short"]),
        ("part_of_a_pass", ["too_short"]),
    ],
)
def test_recorded_runs(name, expected):
    found = [verdict.id for verdict in diagnose(recorded(name))]
    assert found == [*expected, "below_ngram"]


def test_nothing_to_judge():
    assert diagnose(replace(history(saturating(1.6)), epochs=[])) == []
    assert ids(saturating(1.6), uniform=float("nan"), unigram=float("nan")) == []
